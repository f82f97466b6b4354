"""Code is loaded again and again in a long-lived process."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import lamina
from lamina.errors import LoweringError
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.jit import compile_text, load_objects

NAMES = [f"f{n}" for n in range(20)]
MOST_KILOBYTES = 2000
"""What sixty loads may leave behind: a fraction of what as many libraries for each piece would."""


def resident_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields: Mapping[str, str] = dict(line.split(":", 1) for line in lines)
    return int(fields["VmRSS"].split()[0])


def test_code_that_is_dropped_leaves_hardly_any_memory_behind() -> None:
    text = "define void @{}(ptr %a) {{ store i32 1, ptr %a ret void }}"
    codes = [compile_text(text.format(name), detect()) for name in NAMES]
    for _ in range(5):
        load_objects(codes, NAMES)
    before = resident_kilobytes()
    for _ in range(60):
        load_objects(codes, NAMES)
    assert resident_kilobytes() - before < MOST_KILOBYTES


def test_each_name_has_code_of_its_own() -> None:
    text = "define void @{}(ptr %a) {{ store i32 1, ptr %a ret void }}"
    loaded = load_objects([compile_text(text.format(n), detect()) for n in NAMES], NAMES)
    assert len(set(loaded.addresses.values())) == len(NAMES)


IDENTITY = """
func.func @forward(
    %x: tensor<?x3xf32, #nn.dims<["N"]>> {lamina.input = "x"}
) -> (tensor<?x3xf32, #nn.dims<["N"]>> {lamina.output = "y"}) {
  func.return %x : tensor<?x3xf32, #nn.dims<["N"]>>
}
"""


def test_a_model_of_nothing_loads(tmp_path: Path) -> None:
    (tmp_path / "identity.mlir").write_text(IDENTITY, encoding="ascii")
    identity = lamina.compile(lamina.read(tmp_path / "identity.mlir"), "cpu")
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(identity(x)["y"], x)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("define void @f() { ret void }", "g", "Symbols not found"),
        ("declare void @h() define void @f() { call void @h() ret void }", "f", "materialize"),
    ],
)
def test_code_that_cannot_be_linked_is_refused(text: str, name: str, message: str) -> None:
    code = compile_text(text, detect())
    with pytest.raises(LoweringError, match=f"LLVM cannot load compiled code: .*{message}"):
        load_objects([code], [name])
