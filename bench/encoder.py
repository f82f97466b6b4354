"""A BERT encoder of the size of MiniLM, beside PyTorch, ONNX Runtime and OpenVINO in the same run.

    python bench/encoder.py --peer-python PATH [--threads 1 2] [--only 'encoder 1x*' ...]

The checkpoint is random and written to a temporary folder as Hugging Face lays it out: 6 layers,
384 wide, 12 heads, 1536 between. ONNX Runtime gets what torch.onnx.export writes of the peer's
module, OpenVINO what openvino.convert_model makes of it, both for the very shape that is
measured; ours is compiled once for all shapes. Times are those of whole calls, all in f32. The
limit is the larger of the times that reading the weights and the arithmetic take.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command
import numpy as np
from command import Setting
from figures import Row
from safetensors.numpy import save_file
from step import Array, Calls, check_close

import lamina

SETTINGS: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": 30522,
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
}
SHAPES = ((1, 8), (1, 64), (1, 256), (16, 64))
PEERS = ("torch", "onnxruntime", "openvino")
TOLERANCE = 1e-4


def checkpoint() -> dict[str, Array]:
    """Return random tensors by Hugging Face's names; matrices keep the size of what they take."""
    rng, width = np.random.default_rng(0), SETTINGS["hidden_size"]
    found: dict[str, Array] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        drawn = rng.standard_normal((rows, columns), np.float32)
        found[f"{name}.weight"] = drawn * np.float32(columns**-0.5)
        found[f"{name}.bias"] = rng.standard_normal(rows, np.float32) * np.float32(0.1)

    def norm(name: str) -> None:
        for kind, around in (("weight", 1), ("bias", 0)):
            drawn = rng.standard_normal(width, np.float32) * np.float32(0.1)
            found[f"{name}.{kind}"] = drawn + np.float32(around)

    sizes = {"word": "vocab_size", "position": "max_position_embeddings", "token_type": None}
    for kind, size in sizes.items():
        shape = (SETTINGS[size] if size else 2, width)
        found[f"embeddings.{kind}_embeddings.weight"] = rng.standard_normal(shape, np.float32)
    norm("embeddings.LayerNorm")
    for layer in range(SETTINGS["num_hidden_layers"]):
        at, between = f"encoder.layer.{layer}", SETTINGS["intermediate_size"]
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{at}.attention.{part}", width, width)
        norm(f"{at}.attention.output.LayerNorm")
        linear(f"{at}.intermediate.dense", between, width)
        linear(f"{at}.output.dense", width, between)
        norm(f"{at}.output.LayerNorm")
    return found


def inputs(batch: int, length: int) -> dict[str, Array]:
    """Return random tokens without padding, i32 [batch, length]."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, SETTINGS["vocab_size"], (batch, length)).astype(np.int32)
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the rows that are asked for."""
    wanted = [shape for shape in SHAPES if setting.wants(name(*shape))]
    if not wanted:
        return
    arrays = checkpoint()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "config.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        save_file(arrays, path / "model.safetensors")
        np.savez(path / "arrays.npz", **arrays)
        model = lamina.read(path)
        calls = Calls(lamina.compile(model, setting.target, threads=setting.threads))
        linears = [a.size for n, a in arrays.items() if a.ndim == 2 and "embeddings" not in n]
        for batch, length in wanted:
            yield _row(setting, calls, path, sum(linears), batch, length)


def name(batch: int, length: int) -> str:
    """Return the name of a row."""
    return f"encoder {batch}x{length}"


def _row(
    setting: Setting, calls: Calls, folder: Path, weights: int, batch: int, length: int
) -> Row:
    given = inputs(batch, length)
    np.savez(folder / "inputs.npz", **given)
    for side in PEERS if setting.peer else ():
        theirs = setting.prepared(side, side, folder=str(folder))
        ours = calls.run(given)["last_hidden_state"]
        check_close(f"{side}, {name(batch, length)}", ours, theirs, TOLERANCE)
    times = setting.times(lambda: calls.once(given), PEERS)
    attention = SETTINGS["num_hidden_layers"] * 2 * batch * length**2 * SETTINGS["hidden_size"]
    work = 2.0 * (batch * length * weights + attention)
    limits = setting.limits
    least = max(4.0 * weights / limits.read, work / limits.float_ops if limits.float_ops else 0.0)
    seconds = {side: parts[0] for side, parts in times.items()}
    return Row(name(batch, length), setting.threads, seconds, work / 1e9, "GFLOP/s", least)


SCRIPT = command.Script("encoder_peer.py", measure, lambda row: "encoder")

if __name__ == "__main__":
    command.main(__doc__, SCRIPT)
