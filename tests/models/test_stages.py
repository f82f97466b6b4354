"""Every stage of a compilation is text, runs, and can be compiled from."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from checkpoints import Checkpoint
from decoding import run_steps

import lamina
from lamina import compiler
from lamina.frontend.model import Model

Tiny = Callable[[str], tuple[Checkpoint, Model]]

RNG = np.random.default_rng(7)
STEPS = [
    {name: RNG.integers(0, 301, count).tolist() for name, count in sizes.items()}
    for sizes in ({"a": 5}, {"a": 1}, {"b": 3, "a": 2, "c": 1})
]
MODELS = {
    "llama": ('cpu{activations="f32"}', 1e-4),
    "gpt2": ('cpu{activations="f32"}', 1e-4),
    "gguf-q4_1": ("cpu", 0.2),
}
"""How each is compiled, and how far from the import's any stage's logits may be."""


@dataclass(frozen=True)
class Replay:
    """What the compiled model gave here, and what its stages gave in another process."""

    here: list[np.ndarray]
    stages: dict[str, dict[str, np.ndarray]]

    def of(self, kind: str) -> dict[str, list[np.ndarray]]:
        """The logits of each step, for every stage that has them."""
        return {
            name: [found[f"{kind}/{n}"] for n in range(len(STEPS))]
            for name, found in self.stages.items()
            if f"{kind}/0" in found
        }


def start(model: Model, target: str, folder: Path) -> tuple[list[np.ndarray], subprocess.Popen]:
    compiler.lower(model, target, dump=folder / "dump")
    here = run_steps(lamina.compile(model, target, threads=2), STEPS)
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    script, out = Path(__file__).with_name("replay.py"), folder / "out.npz"
    command = [sys.executable, script, folder / "dump", json.dumps(STEPS), out]
    alone = {"LAMINA_DISK_CACHE": "off", "PYTHONPATH": path}
    return here, subprocess.Popen(command, env=os.environ | alone)


def finish(here: list[np.ndarray], process: subprocess.Popen, folder: Path) -> Replay:
    assert process.wait(timeout=120) == 0
    stages: dict[str, dict[str, np.ndarray]] = {}
    with np.load(folder / "out.npz", allow_pickle=False) as found:
        for name in found:
            stage, _, kind = name.partition("/")
            stages.setdefault(stage, {})[kind] = found[name]
    return Replay(here, stages)


@pytest.fixture(scope="module")
def replays(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Replay]:
    """The replay of every model; they run side by side."""
    folders = {name: tmp_path_factory.mktemp(name) for name in MODELS}
    begun = {
        name: start(tiny(name)[1], target, folders[name]) for name, (target, _) in MODELS.items()
    }
    return {name: finish(*both, folders[name]) for name, both in begun.items()}


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_stage_prints_to_the_text_it_was_read_from(
    replays: dict[str, Replay], name: str
) -> None:
    stages = replays[name].stages
    assert next(iter(stages)) == "000-import"
    assert len(stages) >= 15
    assert [stage for stage, found in stages.items() if not found["text"]] == []


def test_every_stage_computes_what_the_import_does(replays: dict[str, Replay], name: str) -> None:
    results = replays[name].of("meaning")
    for found in results.values():
        for logits, expected in zip(found, results["000-import"], strict=True):
            np.testing.assert_allclose(logits, expected, rtol=0, atol=MODELS[name][1])


def test_every_stage_goes_on_to_the_next(replays: dict[str, Replay], name: str) -> None:
    *stages, (_, last) = replays[name].stages.items()
    assert [stage for stage, found in stages if not found["next"]] == []
    assert "next" not in last


def test_the_first_stage_and_the_last_compile_to_the_same_results(
    replays: dict[str, Replay], name: str
) -> None:
    code = replays[name].of("code")
    assert len(code) == 2
    for found in code.values():
        assert all(map(np.array_equal, found, replays[name].here))


def test_the_code_computes_what_the_import_does(replays: dict[str, Replay], name: str) -> None:
    for logits, expected in zip(
        replays[name].here, replays[name].of("meaning")["000-import"], strict=True
    ):
        np.testing.assert_allclose(logits, expected, rtol=0, atol=MODELS[name][1])
