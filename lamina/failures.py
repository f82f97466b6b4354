"""What is kept of a failed compilation: one file that says all and can be run again.

A failure bundle is a module's text as it was before the pass or the emission that failed, under
comments that hold a JSON object: where and why it failed, who owns that, options and versions.
It is a stage like those of a dump, and has no weights in it.
"""

from __future__ import annotations

import json
import platform
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import lamina
from lamina import knobs
from lamina.atomic_file import write_whole
from lamina.errors import FormatError, LaminaError, LoweringError
from lamina.plugins import manager
from lamina.targets.artifact_store import digest_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

_FOLDER: Final = "failures"
_SIGNATURE: Final = "// lamina failure bundle, version 1"
_COMMENT: Final = "// "
_MOST_KEPT: Final = 20
_LONGEST_REASON: Final = 300
_LIBRARIES: Final = ("xdsl", "llvmlite", "numpy", "pluggy", "ml_dtypes")


@dataclass(frozen=True)
class Failure:
    """What failed: the pass, or the emission of `target` where there is none.

    `module` is what it was given, None if that is lost; `pipeline` are all passes of the
    compilation, and `rest` those that had not run, the failed one first.
    """

    module: ModuleOp | None
    target: str
    pipeline: tuple[ModulePass, ...]
    rest: tuple[ModulePass, ...]

    @property
    def where(self) -> str:
        """The failed step as a phrase."""
        if self.rest:
            return f"the pass {self.rest[0].name}"
        return f"the emission for {self.target}"


def explained(failure: Failure, error: Exception) -> LaminaError:
    """Keep a bundle of `failure` and return an error of one sentence that names it."""
    kept = _keep(failure, error) if failure.module else None
    hint = f" (kept in {kept}: `lamina opt` runs it again)" if kept else ""
    if isinstance(error, LaminaError):
        return type(error)(f"{error}{hint}")
    return LoweringError(f"{failure.where} failed: {_said(error)}{hint}")


def read_bundle(path: Path) -> Mapping[str, Any] | None:
    """Return what a bundle says, None for another file; `FormatError` if it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    if not lines or lines[0] != _SIGNATURE:
        return None
    comments: list[str] = []
    for line in lines[1:]:
        if not line.startswith(_COMMENT):
            break
        comments.append(line.removeprefix(_COMMENT))
    try:
        found: object = json.loads("\n".join(comments))
    except (ValueError, RecursionError):
        raise FormatError(f"{path}: the comment of the failure bundle is not JSON") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: the comment of the failure bundle is not an object")
    return cast("dict[str, Any]", found)


def _said(error: Exception) -> str:
    from xdsl.utils.exceptions import DiagnosticException, VerifyException

    reason = " ".join(str(error).split())[:_LONGEST_REASON]
    if reason and isinstance(error, DiagnosticException | VerifyException):
        return reason
    name = type(error).__name__
    return f"{name}: {reason}" if reason else name


def _keep(failure: Failure, error: Exception) -> Path | None:
    """Write a bundle and return its path; None where that cannot be done."""
    try:
        text = _stage(failure)
        step = failure.rest[0].name if failure.rest else "emission"
        folder = knobs.cache_dir() / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{step}-{digest_of([text.encode()])[:12]}.mlir"
        says = json.dumps(_record(failure, error), indent=1)
        comments = "\n".join(f"{_COMMENT}{line}" for line in says.splitlines())
        write_whole(path, [f"{_SIGNATURE}\n{comments}\n\n{text}\n".encode()])
        _forget_old(folder)
    except Exception:
        # What failed is to be told in any case, and a broken module may have no text.
        return None
    return path


def _stage(failure: Failure) -> str:
    """Return the module as a dumped stage that has the rest to go through, if for a target."""
    from xdsl.dialects.builtin import StringAttr

    from lamina.targets.dump import PENDING, TARGET

    assert failure.module is not None
    module = failure.module.clone()
    if failure.target:
        module.attributes[TARGET] = StringAttr(failure.target)
        module.attributes[PENDING] = StringAttr(_spec(failure.rest))
    return str(module)


def _record(failure: Failure, error: Exception) -> dict[str, Any]:
    failed = str(failure.rest[0]) if failure.rest else None
    trace = traceback.format_exception(type(error), error, error.__traceback__)
    return {
        "failed": failed or "emission",
        "owner": _owner(failure),
        "error": f"{type(error).__name__}: {error}",
        "target": failure.target,
        "pipeline": _spec(failure.pipeline),
        "rest": _spec(failure.rest),
        "knobs": knobs.given(),
        "versions": _versions(),
        "plugins": {
            name: manager.version(name) for name, _ in manager.manager().list_name_plugin()
        },
        "traceback": "".join(trace).splitlines(),
    }


def _owner(failure: Failure) -> dict[str, str]:
    """Return the plugin that the failed pass or target is from; one that none lists has none."""
    hook = "register_passes" if failure.rest else "register_targets"
    name = failure.rest[0].name if failure.rest else failure.target.partition("{")[0]
    offer = manager.offers(hook).get(name)
    kind = type(failure.rest[0]) if failure.rest else None
    if offer is None or (kind and offer.value() is not kind):
        return {"plugin": "", "version": "", "module": kind.__module__ if kind else ""}
    return {"plugin": offer.owner, "version": manager.version(offer.owner)}


def _versions() -> dict[str, str]:
    found = {"lamina": lamina.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"system": platform.platform(), "machine": platform.machine()}


def _spec(passes: tuple[ModulePass, ...]) -> str:
    return ",".join(str(each) for each in passes)


def _forget_old(folder: Path) -> None:
    kept = sorted(folder.glob("*.mlir"), key=lambda each: each.stat().st_mtime_ns)
    for path in kept[:-_MOST_KEPT]:
        path.unlink(missing_ok=True)
