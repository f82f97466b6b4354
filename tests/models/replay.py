"""Run every stage of a dump, from its text and the weights: `replay.py FOLDER STEPS OUT`.

STEPS is a JSON list of steps for `run_steps`; OUT gets, for each stage, whether it prints to its
own text (`NAME/text`) and the logits of each step, by the meanings of its operations and by the
code that it is compiled to (`NAME/meaning/N`, `NAME/code/N`).
"""

import gc
import json
import sys
from pathlib import Path

import numpy as np
from decoding import Step, run_steps
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina import compiler
from lamina.targets.reference.executable import ReferenceExecutable


def replay(folder: Path, steps: list[Step]) -> dict[str, np.ndarray]:
    """The results of every stage by the names above.

    Stages that come to the same module would be compiled to the same code: it is run once.
    Reading a stage verifies it.
    """
    found: dict[str, np.ndarray] = {}
    code: list[tuple[ModuleOp, list[np.ndarray]]] = []
    for path in sorted(folder.glob("*.mlir")):
        model = lamina.read(path)
        found[f"{path.stem}/text"] = np.bool_(f"{model.module!s}\n" == path.read_text())
        meaning = run_steps(ReferenceExecutable(model.module, model.weights), steps)
        lowered = compiler.lower(model)
        known = (run for module, run in code if module.is_structurally_equivalent(lowered))
        if (run := next(known, None)) is None:
            run = run_steps(lamina.compile(model, threads=1), steps)
            code.append((lowered, run))
        for number, arrays in enumerate(zip(meaning, run, strict=True)):
            for kind, array in zip(("meaning", "code"), arrays, strict=True):
                found[f"{path.stem}/{kind}/{number}"] = array
    return found


if __name__ == "__main__":
    dump, given, out = sys.argv[1:]
    gc.set_threshold(50_000, 20, 100)
    np.savez(out, **replay(Path(dump), json.loads(given)))
