import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina import compiler

SCRIPT = """
import sys
from pathlib import Path
import lamina
llm = lamina.LLM(sys.argv[1])
print(llm.logits([3, 1, 4]).tobytes().hex())
print([name for name in sys.modules if name.startswith(("xdsl", "llvmlite.ir"))])
print(sys.argv[2] in Path("/proc/self/maps").read_text())
"""

Started = Callable[[Path, str], list[str]]


@pytest.fixture
def started() -> Started:
    """Start from a model in a new process: logits, modules of the compiler, whether it is mapped."""

    def start(path: Path, mapped: str) -> list[str]:
        path_of_modules = os.pathsep.join([os.getcwd(), *sys.path])
        environ = {**os.environ, "PYTHONPATH": path_of_modules, "LAMINA_HUGE_PAGES": "off"}
        command = [sys.executable, "-c", SCRIPT, str(path), mapped]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    return start


def test_a_cached_start_gives_the_same_bits_without_the_compiler(
    tiny: Any, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    path = tiny("llama")[1].source
    first, compiler_of_first, _ = started(path, ".image")
    assert "'xdsl'" in compiler_of_first
    assert started(path, ".image") == [first, "[]", "True"]


def test_a_compiled_model_starts_without_the_compiler(
    tiny: Any, started: Started, tmp_path: Path
) -> None:
    model = tiny("llama")[1]
    compiler.compile_to_file(model, tmp_path / "x.lamina")
    first = lamina.LLM(model).logits([3, 1, 4]).tobytes().hex()
    assert started(tmp_path / "x.lamina", "x.lamina") == [first, "[]", "True"]


def test_the_builder_of_ir_is_there_for_whoever_asks() -> None:
    import llvmlite.ir

    from lamina.targets.cpu.binding import llvm

    module = llvm.parse_assembly("define i32 @f(i32 %a) { ret i32 %a }")
    kind: Any = module.get_function("f").global_value_type
    assert isinstance(kind.as_ir(llvmlite.ir.Context()), llvmlite.ir.FunctionType)
