import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lamina"
ROOMS = ("dialects", "passes", "targets", "plugins", "frontend")

LAYERS = (
    *("dialects", "passes", "targets", "foreign_nodes", "plugins", "compiled", "failures"),
    *("pass_runs", "known_imports", "compiler", "model_check", "runtime", "measure", "cli"),
)
EVERYWHERE = {
    *("arguments", "atomic_file", "errors", "knobs", "own_lock", "progress", "rare_collection"),
    "writing",
}
ALLOWED = {
    **{layer: {*LAYERS[: LAYERS.index(layer) + 1], *EVERYWHERE} for layer in LAYERS},
    "arguments": {"arguments", "errors"},
    "atomic_file": {"atomic_file"},
    "errors": {"errors"},
    "own_lock": {"own_lock"},
    "progress": {"progress"},
    "rare_collection": {"rare_collection"},
    "knobs": {"knobs", "errors"},
    "writing": {"writing", "errors"},
    "frontend": {"frontend", "dialects", *EVERYWHERE},
}
for roof in LAYERS[LAYERS.index("foreign_nodes") :]:
    if roof not in ("failures", "pass_runs"):
        ALLOWED[roof].add("frontend")
FREE = {"__init__", "__main__", "onnx_backend", "testing"}
"""Modules above all layers; nothing but each other and the tests imports them."""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(module: str) -> str | None:
    head, *rest = module.split(".")
    if head != "lamina" or not rest:
        return None
    known = rest[0] in ALLOWED or rest[0] in FREE
    return rest[0] if known else None


MODULES = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    own = layer(module.removesuffix(".py").replace("/", "."))
    assert own is not None, "a module outside every layer"
    found = {layer(name) for name in imports(ROOT / module)} - {None}
    if own not in FREE:
        assert found <= ALLOWED[own]


@pytest.mark.parametrize("room", ROOMS)
def test_a_link_at_the_root_leads_to_its_room(room: str) -> None:
    assert (ROOT / room).readlink() == Path("lamina") / room


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_cannot_be_imported_under_its_bare_name(room: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {room}"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert f"ImportError: import lamina.{room}" in done.stderr
