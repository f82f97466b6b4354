"""The stages of a compilation as numbered files in one folder, with a manifest beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import StringAttr

from lamina.errors import FormatError, InputError
from lamina.writing import writing

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

MANIFEST: Final = "manifest.json"
PENDING: Final = "lamina.pending"
"""The module attribute that says which passes a stage has still to go through."""
TARGET: Final = "lamina.target"
"""The module attribute that says for which target."""

_VERSION: Final = 1
_OURS: Final = re.compile(r"\d{3}-[\w-]+\.mlir|[\w.-]+\.(?:c|ll|s|ptx|metal|wgsl)")


class StageDump:
    """Writes `NNN-<pass>.mlir` after every pass that changed the module, as an observer of passes.

    Each stage names its target and the passes still to come, so that compilation can go on from
    any of them. Raises `InputError` if the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        target: str,
        pipeline: tuple[ModulePass, ...],
        source: Mapping[str, Any] | None,
    ) -> None:
        """Write into `folder`, made if absent; `source` tells where the weights are."""
        self._folder = folder
        self._target = target
        self._specs = tuple(str(each) for each in pipeline)
        self._source = source
        self._files: list[str] = []
        self._done = 0
        self._last: tuple[Mapping[str, Any], str] | None = None
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _remove_former(folder)

    def __call__(
        self, last: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        """Look at `module` between two passes, as `PassPipeline` calls it."""
        self._done += last is not None
        attributes, text = dict(module.attributes), self._printed(module)
        state = (attributes, text.partition("\n")[2])
        if state != self._last:
            self._write(f"{self._done:03d}-{last.name if last else 'import'}.mlir", f"{text}\n")
        self._last = state

    def finish(self, listings: Mapping[str, str], facts: Mapping[str, Any]) -> None:
        """Write what was emitted for each kernel, and the manifest with `facts` in it."""
        for name, text in listings.items():
            if not _OURS.fullmatch(name):
                raise InputError(f"the target {self._target}: {name!r} is no name of a listing")
            self._write(name, text)
        manifest = {
            "version": _VERSION,
            "target": self._target,
            "pipeline": ",".join(self._specs),
            "weights": self._source,
            **facts,
            "files": self._files,
        }
        path = self._folder / MANIFEST
        with writing(path):
            path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    def _printed(self, module: ModuleOp) -> str:
        kept = dict(module.attributes)
        module.attributes[TARGET] = StringAttr(self._target)
        module.attributes[PENDING] = StringAttr(",".join(self._specs[self._done :]))
        text = str(module)
        module.attributes.clear()
        module.attributes.update(kept)
        return text

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        with writing(path):
            path.write_text(text, encoding="utf-8")
        self._files.append(name)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a dump, None if there is none; `FormatError` if it is broken."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise FormatError(f"{path}: is not JSON") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: expected an object")
    manifest = cast("dict[str, Any]", found)
    if manifest.get("version") != _VERSION:
        got = manifest.get("version")
        raise FormatError(f"{path}: field version: expected {_VERSION}, got {got!r}")
    return manifest


def pending(module: ModuleOp) -> tuple[str, str] | None:
    """Return the target and the passes to come of a dumped stage; None for another module."""
    target, passes = (module.attributes.get(key) for key in (TARGET, PENDING))
    if isinstance(target, StringAttr) and isinstance(passes, StringAttr):
        return target.data, passes.data
    return None


def _remove_former(folder: Path) -> None:
    # Only what an earlier dump says it wrote: nothing of the user's is touched.
    try:
        former = read_manifest(folder)
    except FormatError:
        return
    listed: object = former.get("files") if former else None
    for name in cast("list[object]", listed) if isinstance(listed, list) else []:
        if isinstance(name, str) and _OURS.fullmatch(name):
            (folder / name).unlink(missing_ok=True)
