"""Kernels and their arguments are read from the text itself, and what cannot be is refused."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.testing.msl import Argument, MslError, compile, kernels_of
from lamina.testing.msl.source import attributes, split, without_comments

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def test_arguments_have_the_index_and_space_that_the_text_gives() -> None:
    text = f"""{HEAD}// kernel void no() {{}}
kernel void f(device float* x [[ buffer( 3 ) ]] /* in [[buffer(9)]] */,
              constant uint &n [[buffer(0)]], threadgroup half *t [[threadgroup(1)]],
              ushort3 at [[thread_position_in_grid]]) {{}}
"""
    kernel = kernels_of(text)["f"]
    assert kernel.arguments == (
        Argument("x", "device float*", "buffer", 3),
        Argument("n", "constant uint &", "buffer", 0),
        Argument("t", "threadgroup half *", "threadgroup", 1),
        Argument("at", "ushort3", "thread_position_in_grid", 0),
    )
    assert [each.writable for each in kernel.buffers.values()] == [True, False]
    assert (kernel.line, kernel.max_threads) == (4, 1024)


REFUSED = {
    "kernel void f(device float* x [[buffer(31)]]) {}": r"line 3: .* x, has buffer\(31\): expected a number below 31",
    "kernel void f(device float* x [[buffer(0)]],\n  device float* y [[buffer(0)]]) {}": r"kernel f has buffer\(0\) for x and y",
    "kernel void f(device float* x) {}": r"line 3: .* x, has 0 attributes: expected one",
    "kernel void f(\n  uint x [[thread_position]]) {}": r"line 4: .* has the attribute thread_position, which is not supported",
    "kernel void f(thread float* x [[buffer(0)]]) {}": r"is thread float\*: expected device or constant for \[\[buffer",
    "kernel void f(device float* x [[threadgroup(0)]]) {}": r"expected threadgroup for \[\[threadgroup",
    "kernel void f(constant int x [[buffer(0)]]) {}": r"expected a pointer or a reference",
    "template <typename T> kernel void f(device T* x [[buffer(0)]]) {}": r"kernel f is a template",
    "kernel void f() {}\nkernel void f() {}": r"line 4: kernel f is declared twice",
    "void f() {}": r"has no kernel",
    "kernel void f() {\n  threadgroup float t[2] = {1.0f, 2.0f};\n}": r"line 4: threadgroup float t\[2\] is no declaration that is known",
    "#include <vector>\nkernel void f() {}": r"includes <vector>: expected headers of Metal only",
    "kernel void f() {\n  int i = j;\n}": r"does not compile: line 4: 'j' was not declared in this scope",
    "kernel void f(int at [[thread_position_in_grid]]) {}": r"a position is of uint or ushort",
    "kernel void f() {\n  double d = 1;\n}": r"line 4: attempt to use poisoned \"double\"",
    "kernel void f(device half* x [[buffer(0)]]) {\n  simdgroup_float8x8 m;\n  simdgroup_load(m, x);\n}": r"line 5: no matching function for call to 'simdgroup_load",
    "kernel void f(device float4* x [[buffer(0)]]) {\n  *x = half4(1);\n}": r"does not compile: line 4",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_cannot_be_run_is_refused(text: str, needs: Callable[..., str]) -> None:
    needs("g++", package="g++")
    with pytest.raises(MslError, match=REFUSED[text]):
        compile(HEAD + text)


def test_a_text_without_the_library_is_refused() -> None:
    with pytest.raises(MslError, match="does not include <metal_stdlib>"):
        compile("kernel void f() {}")


def test_without_a_compiler_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        MslError, match=r"g\+\+, which is missing: install the Debian package g\+\+"
    ):
        compile(f"{HEAD}kernel void f() {{}}")


def test_a_program_is_built_once(needs: Callable[..., str]) -> None:
    needs("g++", package="g++")
    text = f"{HEAD}kernel void once() {{}}\n"
    first = compile(text).program
    made = first.stat().st_ino
    assert (compile(text).program, first.stat().st_ino) == (first, made)
    assert first.parent == Path(os.environ["LAMINA_CACHE"]) / "msl"


def test_nothing_is_kept_on_disk_unless_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, needs: Callable[..., str]
) -> None:
    needs("g++", package="g++")
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    library = compile(f"{HEAD}kernel void passing() {{}}\n")
    library.run("passing", [], (1,), (1,))
    assert Path(os.environ["LAMINA_CACHE"]) not in library.program.parents


def test_comments_and_attributes_keep_their_places() -> None:
    text = 'a /* [[x]] */ b[c[0]] "//" [[y(1)]] // z'
    plain = without_comments(text)
    assert (len(plain), plain.count("//"), plain.count("[[")) == (len(text), 1, 1)
    assert [text[begin:end] for begin, end in attributes(plain)] == ["[[y(1)]]"]
    assert [piece for _, piece in split("a<b, c>, d(e, f)")] == ["a<b, c>", " d(e, f)"]
