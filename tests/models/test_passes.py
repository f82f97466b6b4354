"""Each fusing pass can be left out: the plan has more launches, and the same results."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from checkpoints import VOCAB, Checkpoint, GgufSizes, of_gguf
from decoding import run_steps
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina.compiler import lower
from lamina.frontend.model import Model
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.targets.signature import forward_of

Tiny = Callable[[str], tuple[Checkpoint, Model]]
Outputs = Mapping[str, np.ndarray]

PASSES = tuple(each for each in CpuTarget(kv="f32").passes() if each.name != "decompose-math")
LEFT_OUT = sorted(
    {each.name for each in PASSES if each.name.startswith("fuse-")} | {"choose-variants"}
)
MERGING = [each for each in LEFT_OUT if each != "fuse-activations"]
"""Those that spare launches: formulas of activations are fused whatever parts they have."""

TOLERANCES = {"gguf-q4_1": 1e-3, "gpt2": 1e-5, "bert": 1e-5}
"""How far apart two orders of the same arithmetic may be: a quantised row may round otherwise."""

RNG = np.random.default_rng(11)
STEPS = [
    {name: RNG.integers(0, VOCAB, count).tolist() for name, count in sizes.items()}
    for sizes in ({"a": 2, "b": 1}, {"b": 1})
]
IDS = RNG.integers(0, VOCAB, (2, 3)).astype(np.int32)
MASK = np.int32([[1, 1, 1], [1, 1, 0]])


@pytest.fixture(scope="module")
def lowered(tiny: Tiny) -> Callable[[str, str | None], ModuleOp]:
    """The plan of a model without one of the passes."""

    @cache
    def of(name: str, left_out: str | None) -> ModuleOp:
        passes = tuple(each for each in PASSES if each.name != left_out)
        return lower(tiny(name)[1], pipeline=passes)

    return of


@pytest.fixture(scope="module")
def outputs(tiny: Tiny, lowered: Callable[..., ModuleOp]) -> Callable[[str, str | None], Outputs]:
    """What the plan gives in the reference: a mixed step and one of one token, or an encoding."""

    @cache
    def of(name: str, left_out: str | None) -> Outputs:
        run = ReferenceExecutable(lowered(name, left_out), tiny(name)[1].weights)
        if name == "bert":
            return run(input_ids=IDS, attention_mask=MASK, token_type_ids=0 * IDS)
        return {f"step {n}": found for n, found in enumerate(run_steps(run, STEPS))}

    return of


def launches(module: ModuleOp) -> list[int]:
    """The launches of each branch of a plan, counted in its text."""
    text = str(forward_of(module))
    return [branch.count("plan.launch") for branch in text.split("}, {")]


@pytest.mark.parametrize("left_out", MERGING)
def test_a_pass_that_is_left_out_changes_the_launches_of_a_model(
    lowered: Callable[..., ModuleOp], left_out: str
) -> None:
    counts = [
        (launches(lowered(name, left_out)), launches(lowered(name, None))) for name in TOLERANCES
    ]
    assert any(without != whole for without, whole in counts)
    assert all(min(without) >= min(whole) for without, whole in counts)


@pytest.mark.parametrize("left_out", LEFT_OUT)
@pytest.mark.parametrize("name", TOLERANCES)
def test_a_pass_that_is_left_out_does_not_change_the_results(
    lowered: Callable[..., ModuleOp], outputs: Callable[..., Outputs], name: str, left_out: str
) -> None:
    if lowered(name, left_out).is_structurally_equivalent(lowered(name, None)):
        return
    without = outputs(name, left_out)
    for key, expected in outputs(name, None).items():
        np.testing.assert_allclose(without[key], expected, rtol=0, atol=TOLERANCES[name])


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Model]:
    """The same quantised decoder with two layers and with three."""

    def read(layers: int, folder: Path) -> Model:
        return lamina.read(of_gguf("q4_1", sizes=GgufSizes(layers=layers)).write(folder))

    return {layers: read(layers, tmp_path_factory.mktemp(f"{layers}")) for layers in (2, 3)}


def test_a_layer_of_a_decode_step_is_at_most_five_launches(deep: dict[int, Model]) -> None:
    two, three = (launches(lower(model, pipeline=CpuTarget().passes())) for model in deep.values())
    assert 0 < three[0] - two[0] <= 5


def test_a_layer_of_the_imported_graph_has_at_least_fifteen_operations(
    deep: dict[int, Model],
) -> None:
    two, three = (sum(1 for _ in model.module.walk()) for model in deep.values())
    assert three - two >= 15
