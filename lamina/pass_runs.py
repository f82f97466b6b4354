"""Run passes over a module, and keep what is needed to run the one that fails again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lamina.failures import Failure, explained
from lamina.progress import report

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

Observer = Callable[["ModulePass | None", "ModuleOp", "ModulePass | None"], None]
"""Called before the first pass and after every pass: the last one, the module, the next one."""


def run_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    observers: Sequence[Observer] = (),
    *,
    again: Callable[[], ModuleOp] | None = None,
    target: str = "",
) -> None:
    """Change `module` by each pass in turn; `LoweringError` names the pass that fails.

    `again` gives the module as it was before the first pass: with it a failure leaves a bundle,
    which the error names. `target` is the spec of the target that the passes are for.
    """
    from xdsl.passes import PassPipeline

    done, inside = 0, False

    def observe(last: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
        nonlocal done, inside
        inside = False
        done += last is not None
        report("running passes", done, len(passes))
        for observer in observers:
            observer(last, module, following)
        inside = following is not None

    try:
        PassPipeline(tuple(passes), observe).apply(ctx, module)
    except Exception as error:
        if not inside:
            raise
        before = _replayed(ctx, again, passes[:done])
        failure = Failure(before, target, tuple(passes), tuple(passes[done:]))
        raise explained(failure, error) from error


def _replayed(
    ctx: Context, again: Callable[[], ModuleOp] | None, passes: Sequence[ModulePass]
) -> ModuleOp | None:
    # Keeping a copy before every pass would cost each compilation what only a failure needs.
    if again is None:
        return None
    try:
        module = again()
        for each in passes:
            each.apply(ctx, module)
    except Exception:
        return None
    return module
