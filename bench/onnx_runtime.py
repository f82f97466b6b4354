"""ONNX Runtime as the other side of `onnx_models.py`: it needs onnxruntime and numpy alone.

    python bench/onnx_runtime.py MODEL FOLDER --threads 1 --seconds 0.5

FOLDER holds the inputs of calls, `NAME.npz`. Their outputs are written beside them with all
optimisations off and on, `NAME.off.npz` and `NAME.on.npz`, and on more threads than a batch has
rows, `NAME.rows.npz`, numbered in the graph's order; a call that fails gets `NAME.txt`. The seconds
that a call takes are printed by name as one JSON object.
"""

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import onnxruntime

MANY: Final = 4
"""More threads than a batch has rows: each row is quantised by itself."""


def session(model: str, threads: int, *, optimised: bool) -> Any:
    """Return the model's session on `threads` threads."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def answer(sessions: dict[str, Any], path: Path, seconds: float) -> float | None:
    """Write the outputs for the inputs at `path`; return the seconds of the best call."""
    with np.load(path) as arrays:
        given = dict(arrays)
    try:
        for name, each in sessions.items():
            found = each.run(None, given)
            np.savez(path.with_suffix(f".{name}.npz"), *found)
    except Exception as error:
        path.with_suffix(".txt").write_text(str(error), encoding="utf-8")
        return None
    times = list[float]()
    while not times or (sum(times) < seconds and len(times) < 1000):
        began = perf_counter()
        sessions["on"].run(None, given)
        times.append(perf_counter() - began)
    return min(times)


def main() -> None:
    """Answer every call of the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    calls = sorted(options.folder.glob("*.npz"))
    sessions = {
        "off": session(options.model, options.threads, optimised=False),
        "on": session(options.model, options.threads, optimised=True),
        "rows": session(options.model, MANY, optimised=True),
    }
    print(json.dumps({path.stem: answer(sessions, path, options.seconds) for path in calls}))


if __name__ == "__main__":
    main()
