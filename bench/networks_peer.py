"""ONNX Runtime and OpenVINO as the other sides of `networks.py`: see `answers.py`.

It needs onnxruntime, openvino and numpy. A job is given the path of an ONNX file, and of the inputs
of a call, `inputs.npz`.
"""

from typing import Any

import answers
import numpy as np
import onnxruntime
import openvino


class Refused:
    """A network that a library cannot read, which has no times and no outputs."""

    def once(self) -> list[float]:
        """Return no time."""
        return [float("inf")]

    def result(self) -> Any:
        """Return no outputs."""
        return np.zeros(0, np.float32)


def given(inputs: str) -> dict[str, Any]:
    """Return arrays by the names of inputs."""
    with np.load(inputs) as arrays:
        return dict(arrays)


def of_onnxruntime(model: str, inputs: str, threads: int) -> answers.Whole:
    """Return ONNX Runtime with all its optimisations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = given(inputs)
    return answers.Whole(lambda: session.run(None, feeds), answers.flat)


def of_openvino(model: str, inputs: str, threads: int) -> answers.Whole | Refused:
    """Return OpenVINO for the very shapes of the inputs, in f32; it does not read every file."""
    feeds = given(inputs)
    core = openvino.Core()
    try:
        read = core.read_model(model)
    except RuntimeError:
        return Refused()
    read.reshape({name: list(array.shape) for name, array in feeds.items()})
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    return answers.Whole(
        lambda: list(request.infer(feeds, share_inputs=True, share_outputs=True).values()),
        answers.flat,
    )


def greeting() -> dict[str, str]:
    """Return versions."""
    return {"onnxruntime": onnxruntime.__version__, "openvino": openvino.__version__}


def main() -> None:
    """Answer with a number of threads."""
    threads = answers.threads(__doc__)
    makers = {
        "onnxruntime": lambda **job: of_onnxruntime(threads=threads, **job),
        "openvino": lambda **job: of_openvino(threads=threads, **job),
    }
    answers.serve(greeting, makers)


if __name__ == "__main__":
    main()
