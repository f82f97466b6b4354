"""Run every stage of a dump, from its text and the weights: `replay.py FOLDER STEPS OUT`.

STEPS is a JSON list of steps for `run_steps`; OUT gets, for each stage, whether it prints to its
own text (`NAME/text`), whether its next passes make of it what the stage behind it says
(`NAME/next`, of all but the last), and the logits of each step by the meanings of its operations
(`NAME/meaning/N`); of the first and the last also by the code that they are compiled to
(`NAME/code/N`).
"""

import gc
import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from decoding import Step, run_steps
from xdsl.passes import ModulePass

import lamina
from lamina.compiler import lower, resolve_pipeline, resolve_target
from lamina.frontend.model import Model
from lamina.targets.reference.executable import ReferenceExecutable


def replay(folder: Path, steps: list[Step]) -> dict[str, np.ndarray]:
    """The results of every stage by the names above; reading one verifies it."""
    found: dict[str, np.ndarray] = {}
    stages = {path.stem: lamina.read(path) for path in sorted(folder.glob("*.mlir"))}
    for name, model in stages.items():
        text = (folder / f"{name}.mlir").read_text()
        found[f"{name}/text"] = np.bool_(f"{model.module!s}\n" == text)
        meaning = run_steps(ReferenceExecutable(model.module, model.weights), steps)
        found |= {f"{name}/meaning/{number}": logits for number, logits in enumerate(meaning)}
    for name, following in pairwise(stages):
        found[f"{name}/next"] = np.bool_(goes_on(stages[name], stages[following]))
    for name in (min(stages), max(stages)):
        code = run_steps(lamina.compile(stages[name], threads=1), steps)
        found |= {f"{name}/code/{number}": logits for number, logits in enumerate(code)}
    return found


def goes_on(model: Model, following: Model) -> bool:
    """Whether a stage becomes the one behind it, and the passes left are those left there.

    Then both compile to the same code, and so do all if each becomes the next.
    """
    left, later = pending(model), pending(following)
    count = len(left) - len(later)
    made, expected = lower(model, "cpu", left[:count]), lower(following, "cpu", ())
    return left[count:] == later and made.is_structurally_equivalent(expected)


def pending(model: Model) -> tuple[ModulePass, ...]:
    """The passes that a stage has to go through."""
    return resolve_pipeline(None, model.module, resolve_target("auto", model.module))


if __name__ == "__main__":
    dump, given, out = sys.argv[1:]
    gc.set_threshold(50_000, 20, 100)
    np.savez(out, **replay(Path(dump), json.loads(given)))
