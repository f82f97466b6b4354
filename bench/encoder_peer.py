"""PyTorch, ONNX Runtime and OpenVINO as the other sides of `encoder.py`: see `answers.py`.

It needs torch, onnx, onnxruntime, openvino and numpy. A job is given the folder of a checkpoint,
`config.json` and `arrays.npz`, and of the inputs of a call, `inputs.npz`.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import answers
import numpy as np
import onnxruntime
import openvino
import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Attention and a feed-forward part, each added to its input and normed."""

    def __init__(self, width: int, between: int, heads: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width, eps)
        self.up, self.down = nn.Linear(width, between), nn.Linear(between, width)
        self.last_norm = nn.LayerNorm(width, eps)

    def forward(self, x: Any, bias: Any) -> Any:
        """Return x f32 [batch, length, width] after the layer."""
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = self.norm(x + self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return self.last_norm(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """BERT without its pooler."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        width, eps = settings["hidden_size"], settings["layer_norm_eps"]
        self.word = nn.Embedding(settings["vocab_size"], width)
        self.position = nn.Embedding(settings["max_position_embeddings"], width)
        self.token_type = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps)
        sizes = (width, settings["intermediate_size"], settings["num_attention_heads"], eps)
        self.layers = nn.ModuleList([Layer(*sizes) for _ in range(settings["num_hidden_layers"])])

    def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
        """Return f32 [batch, length, width] of ids, mask and segments i64 [batch, length]."""
        places = torch.arange(ids.shape[1])
        x = self.norm(self.word(ids) + self.token_type(segments) + self.position(places))
        bias = (1.0 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, bias)
        return x


NAMES = {
    **{f"{kind}.": f"embeddings.{kind}_embeddings." for kind in ("word", "position", "token_type")},
    "norm.": "embeddings.LayerNorm.",
}
PARTS = {
    **{f"{part}.": f"attention.self.{part}." for part in ("query", "key", "value")},
    **{"out.": "attention.output.dense.", "norm.": "attention.output.LayerNorm."},
    **{"up.": "intermediate.dense.", "down.": "output.dense.", "last_norm.": "output.LayerNorm."},
}
"""How Hugging Face begins the names of parameters, by how this module does."""


def stored(name: str) -> str:
    """Return the name in the checkpoint of a parameter of `Encoder`."""
    if not name.startswith("layers."):
        return _renamed(name, NAMES)
    _, number, rest = name.split(".", 2)
    return f"encoder.layer.{number}.{_renamed(rest, PARTS)}"


def _renamed(name: str, table: dict[str, str]) -> str:
    start = next(start for start in table if name.startswith(start))
    return table[start] + name.removeprefix(start)


def encoder(folder: Path) -> Encoder:
    """Return the module with the checkpoint's numbers."""
    module = Encoder(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    with np.load(folder / "arrays.npz") as arrays:
        module.load_state_dict(
            {name: torch.from_numpy(arrays[stored(name)]) for name in module.state_dict()}
        )
    return module.eval()


def tokens(folder: Path) -> tuple[Any, ...]:
    """Return ids, mask and segments, i64."""
    with np.load(folder / "inputs.npz") as arrays:
        names = ("input_ids", "attention_mask", "token_type_ids")
        return tuple(torch.from_numpy(arrays[name].astype(np.int64)) for name in names)


def of_torch(folder: str) -> answers.Whole:
    """Return PyTorch, eager."""
    module, given = encoder(Path(folder)), tokens(Path(folder))
    return answers.Whole(lambda: module(*given))


def of_onnxruntime(folder: str, threads: int) -> answers.Whole:
    """Return ONNX Runtime on what torch.onnx.export writes for this shape."""
    where, given = Path(folder), tokens(Path(folder))
    path = where / "model.onnx"
    names = ["ids", "mask", "segments"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            encoder(where), given, path, input_names=names, dynamo=False, opset_version=17
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {name: tensor.numpy() for name, tensor in zip(names, given, strict=True)}
    return answers.Whole(lambda: session.run(None, feeds)[0])


def of_openvino(folder: str, threads: int) -> answers.Whole:
    """Return OpenVINO on what convert_model makes of the module for this shape, in f32."""
    where, given = Path(folder), tokens(Path(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = openvino.convert_model(
            encoder(where), example_input=given, input=[list(each.shape) for each in given]
        )
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.compile_model(model, "CPU", settings).create_infer_request()
    feeds = [tensor.numpy() for tensor in given]
    return answers.Whole(lambda: request.infer(feeds, share_inputs=True, share_outputs=True)[0])


def greeting() -> dict[str, str]:
    """Return versions, and the kernels that were chosen."""
    level = torch.backends.cpu.get_cpu_capability()
    capabilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return {
        "torch": f"{torch.__version__}, ATen {level}",
        "onnxruntime": onnxruntime.__version__,
        "openvino": f"{openvino.__version__}, {' '.join(capabilities)}",
    }


def main() -> None:
    """Answer with a number of threads."""
    threads = answers.threads(__doc__)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    makers = {
        "torch": of_torch,
        "onnxruntime": lambda folder: of_onnxruntime(folder, threads),
        "openvino": lambda folder: of_openvino(folder, threads),
    }
    answers.serve(greeting, makers)


if __name__ == "__main__":
    main()
