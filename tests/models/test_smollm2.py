"""SmolLM2 on the CPU: as exact as its numbers at two levels, and as small as its plan may be.

The golden files: `smollm2_exact.npz` has the logits of a float64 run, `smollm2_logits.npz` those
of llama.cpp, `smollm2_text256.json` a longer text, `smollm2_greedy.json` how the exact run goes on.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy_llama
import pytest

import lamina
from lamina.targets.cpu.features import levels

GOLDEN = Path(__file__).parents[1] / "golden"
LAYERS = 30
LINEARS = 7 * LAYERS + 1
"""The quantised linears: q, k, v, o, gate, up and down of each layer, and the head."""


def golden(name: str) -> dict[str, Any]:
    path = GOLDEN / f"smollm2_{name}"
    if path.suffix == ".json":
        return json.loads(path.read_text())
    return dict(np.load(path, allow_pickle=False))


@pytest.fixture(scope="module")
def path(fetched: Callable[[str], Path]) -> Path:
    return fetched("smollm2")


@pytest.fixture(scope="module", params=["auto", "avx2"])
def target(request: pytest.FixtureRequest) -> str:
    """The code for this machine, and that for one with less."""
    if request.param not in ("auto", *levels()):
        pytest.skip(f"this machine has no {request.param}")
    return f"cpu{{features={request.param}}}"


@pytest.fixture(scope="module")
def exact_llm(path: Path, target: str) -> Iterator[lamina.LLM]:
    """With f32 activations."""
    with lamina.LLM(path, target, activations="f32", cache_tokens=64) as llm:
        yield llm


@pytest.fixture(scope="module")
def compiled(
    path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[lamina.LLM, Path]]:
    """The code for this machine, and its stages."""
    folder = tmp_path_factory.mktemp("smollm2") / "stages"
    with lamina.LLM(path, cache_tokens=512, dump=folder) as llm:
        yield llm, folder


@pytest.fixture(scope="module")
def llm(request: pytest.FixtureRequest, path: Path, target: str) -> Iterator[lamina.LLM]:
    """With activations in 8 bits beside quantised weights."""
    if target == "cpu{features=auto}":
        yield request.getfixturevalue("compiled")[0]
        return
    with lamina.LLM(path, target, cache_tokens=512) as llm:
        yield llm


@pytest.fixture(scope="module")
def dump(compiled: tuple[lamina.LLM, Path]) -> Path:
    """The stages of the code for this machine."""
    return compiled[1]


@pytest.fixture(scope="module")
def exact(path: Path) -> np.ndarray:
    """The logits of the longer text by a float64 run of the dequantised weights."""
    model = lamina.read(path, defer=True)
    config, weights = model.config, model.weights
    assert config is not None
    assert config.rope is not None

    def make(name: str) -> np.ndarray:
        weight = weights[name]
        return numpy_llama.dequantized(weight.dtype, weight.array).reshape(weight.shape)

    arrays = numpy_llama.from_gguf(numpy_llama.Made(weights, make), config.heads, config.kv_heads)
    settings = {
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.theta,
    }
    return numpy_llama.logits(arrays, settings, golden("text256.json")["tokens"])


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The cosine of each row with the other's."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(exact: np.ndarray, found: np.ndarray) -> float:
    """The mean over rows of the KL divergence, in nats."""
    total = 0.0
    for rows in zip(exact, found, strict=True):
        p, q = map(log_softmax, rows)
        total += float((np.exp(p) * (p - q)).sum())
    return total / len(exact)


def test_f32_activations_have_the_exact_logits(exact_llm: lamina.LLM) -> None:
    exact = golden("exact.npz")
    found = exact_llm.logits(exact["tokens"].tolist())
    assert cosine(found, exact["logits"]).min() >= 0.99999
    assert found.argmax(-1).tolist() == exact["logits"].argmax(-1).tolist()


def test_f32_activations_go_on_as_the_exact_model(exact_llm: lamina.LLM) -> None:
    exact = golden("greedy.json")
    (done,) = exact_llm.generate(exact["prompt"], max_new_tokens=16)
    assert exact_llm.tokenizer.encode(exact["prompt"]) == exact["tokens"]
    assert done.token_ids == exact["greedy16_exact"]


def test_the_float64_run_is_the_golden_one(exact: np.ndarray) -> None:
    text = golden("text256.json")
    rows = zip(exact, text["tokens"][1:], strict=False)
    losses = [-log_softmax(logits)[token] for logits, token in rows]
    assert exact.argmax(-1).tolist() == text["exact_top1"]
    assert np.mean(losses) == pytest.approx(text["exact_nll_mean"], abs=1e-9)


def test_quantised_activations_stay_near_the_exact_logits(
    llm: lamina.LLM, exact: np.ndarray
) -> None:
    found = llm.logits(golden("text256.json")["tokens"])
    cosines = cosine(found, exact)
    assert divergence(exact, found) <= 0.0028
    assert cosines.min() >= 0.985
    assert cosines.mean() >= 0.999


def test_quantised_activations_prefer_the_tokens_that_llama_cpp_does(llm: lamina.LLM) -> None:
    other = golden("logits.npz")
    found = llm.logits(other["tokens"].tolist())
    assert found.argmax(-1).tolist() == other["logits"].argmax(-1).tolist()


@pytest.fixture(scope="module")
def plan(dump: Path) -> str:
    """The text that was compiled."""
    return max(dump.glob("*.mlir")).read_text()


def decode_calls(plan: str) -> Iterator[tuple[str, list[str]]]:
    """Every launch for a single token: its sources, and the kernels that it calls."""
    branch = plan.split('plan.switch attributes {value = "T", bounds = array<i64: 1>} {')[1]
    branch = branch.split("\n    }")[0]
    for launch in re.findall(r"plan\.launch .*?\n      \}", branch, re.DOTALL):
        yield launch.splitlines()[0], re.findall(r"plan\.call @([\w.]+)\(", launch)


def test_a_layer_of_a_decode_step_is_at_most_five_launches(plan: str) -> None:
    counts: Counter[str] = Counter()
    for sources, _ in decode_calls(plan):
        counts.update(set(re.findall(r"/layers\.(\d+)", sources)))
    assert len(counts) == LAYERS
    assert max(counts.values()) <= 5


def test_every_quantised_linear_of_a_decode_step_is_an_integer_dot(plan: str) -> None:
    kernels = dict(re.findall(r"tile\.kernel @([\w.]+)(.*?)\n  \}", plan, re.DOTALL))
    dot = re.compile(r"tile\.dot .*: \(vector<[\dx]+i8>, vector<[\dx]+i8>, vector<[\dx]+i32>\)")
    dots = {name: len(dot.findall(body)) for name, body in kernels.items()}
    found = [dots[name] for _, calls in decode_calls(plan) for name in calls if dots[name]]
    assert found[-1] == 2, "the last product has two terms"
    assert sum(found[:-1]) == LINEARS - 1


def test_nothing_runs_by_its_numpy_meaning(plan: str) -> None:
    assert "plan.call" in plan
    assert "plan.host" not in plan


def test_kernels_are_few_and_short(dump: Path) -> None:
    counts = {path.stem: instructions(path.read_text()) for path in dump.glob("*.ll")}
    assert 0 < len(counts) <= 25
    assert max(counts.values()) <= 600, counts


def instructions(text: str) -> int:
    """The LLVM instructions of a module: the indented lines of its functions."""
    bodies = re.findall(r"^define .*?\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE)
    return sum(line.startswith("  ") for body in bodies for line in body.splitlines())


READ = """
import gc
import sys
from pathlib import Path
from lamina.dialects.text import read_module
from lamina.plugins import manager
gc.set_threshold(50_000, 20, 100)
for path in map(Path, sys.argv[1:]):
    print(sum(1 for _ in read_module(manager.context(), path).walk()))
"""


def test_every_stage_parses_and_verifies(dump: Path) -> None:
    stages, env = sorted(dump.glob("*.mlir")), {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    commands = [[sys.executable, "-c", READ, *stages[n::2]] for n in range(2)]
    begun = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        for command in commands
    ]
    told = [process.communicate()[0] for process in begun]
    assert [process.returncode for process in begun] == [0, 0]
    sizes = [int(size) for text in told for size in text.split()]
    assert len(sizes) == len(stages) >= 15
    assert sum(sizes) <= 40_000
