"""From text to a module, and whether it holds together, with errors of one sentence."""

from pathlib import Path
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from lamina.dialects.quick_parser import QuickParser
from lamina.errors import FormatError, LoweringError

_LONGEST: Final = 300


def read_module(ctx: Context, path: Path) -> ModuleOp:
    """Read a .mlir file and verify it; `FormatError` names the file and the place."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path}: is not UTF-8 text") from None
    return parse_module(ctx, text, str(path))


def parse_module(ctx: Context, text: str, name: str) -> ModuleOp:
    """Read a module and verify it; `FormatError` says where in `name` the text is wrong."""
    try:
        module = QuickParser(ctx, text, name).parse_module()
    except ParseError as error:
        raise FormatError(f"{error.span.get_location()}: {_sentence(error.msg)}") from None
    except VerifyException as error:
        raise FormatError(f"{name}: {_sentence(str(error))}") from None
    except RecursionError:
        raise FormatError(f"{name}: nested too deep") from None
    except Exception as error:
        reason = _sentence(f"{type(error).__name__}: {error}")
        raise FormatError(f"{name}: cannot be read as a module: {reason}") from error
    if fault := find_fault(module):
        raise FormatError(f"{name}: {fault}")
    return module


def verify_module(module: ModuleOp, after: str) -> None:
    """Raise a `LoweringError` naming the first wrong operation `after` a pass or a step."""
    if fault := find_fault(module):
        raise LoweringError(f"after {after}: {fault}")


def find_fault(module: ModuleOp) -> str | None:
    """Return what is wrong with the first operation that does not verify, or None."""
    try:
        module.verify()
    except VerifyException as error:
        return f"{_culprit(module)} does not verify: {_sentence(str(error))}"
    return None


def _culprit(module: ModuleOp) -> str:
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return _spelt(op)
    return "the module"


def _spelt(op: Operation) -> str:
    results = ", ".join(f"%{r.name_hint}" for r in op.results if r.name_hint)
    return f"{op.name} ({results})" if results else op.name


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
