import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from checkpoints import CHECKPOINTS
from fake_cuda import FakeCudaTarget

import lamina
from lamina.errors import InputError, TargetUnavailable
from lamina.targets.cuda.cubins import linker_version

TOKENS = [int(token) for token in np.random.default_rng(0).integers(0, 300, 11)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CHECKPOINTS["gpt2"]().write(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[lamina.LLM]]:
    """Return a tiny model on the interpreter, and by the meanings of its operations."""

    @cache
    def load(name: str) -> list[lamina.LLM]:
        path = CHECKPOINTS[name]().write(tmp_path_factory.mktemp(name))
        return [lamina.LLM(path, target=each) for each in (FakeCudaTarget(), "reference")]

    return load


SHORT = ("gpt2", "gguf-q4_1")
LONG = [pytest.param(name, marks=pytest.mark.gpu) for name in ("llama", "llama-bf16")]


@pytest.mark.parametrize("name", [*SHORT, *LONG])
def test_a_tiny_model_has_the_logits_of_the_reference(
    name: str, pair: Callable[[str], list[lamina.LLM]]
) -> None:
    found, expected = (llm.logits(TOKENS[:3]) for llm in pair(name))
    assert np.abs(found - expected).max() < 2e-3


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_tiny_model_writes_what_the_reference_writes(
    name: str, pair: Callable[[str], list[lamina.LLM]]
) -> None:
    prompts = [TOKENS[:5], TOKENS[:2]]
    found, expected = (llm.generate(prompts, max_new_tokens=6) for llm in pair(name))
    assert [done.token_ids for done in found] == [done.token_ids for done in expected]


@pytest.fixture(scope="module")
def made(
    command: Callable[..., tuple[int, str, str]],
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with a compiled file, and its stages."""
    made = tmp_path_factory.mktemp("made")
    out, dump = made / "tiny.lamina", made / "stages"
    code, _, err = command("compile", folder, "-o", out, "--target", "cuda", "--dump-ir", dump)
    assert (code, err) == (0, "")
    return made


def test_everything_but_running_works_without_a_device(
    command: Callable[..., tuple[int, str, str]], made: Path
) -> None:
    names = {path.name for path in (made / "stages").iterdir()}
    facts = json.loads((made / "stages" / "manifest.json").read_text())["facts"]
    assert len([name for name in names if name.endswith(".ptx")]) == facts["kernels"] > 0
    assert len([name for name in names if name.endswith(".ll")]) == facts["kernels"]
    assert facts["arch"] == "sm_80"
    code, _, err = command("generate", made / "tiny.lamina", "-p", "a", "--target", "cuda")
    assert code == 1
    assert "cuda finds no NVIDIA driver" in err


def test_inspect_shows_what_kernels_take_where_a_linker_said_it(
    command: Callable[..., tuple[int, str, str]], made: Path
) -> None:
    _, out, _ = command("inspect", made / "tiny.lamina", "--json")
    facts = json.loads(out)
    expected = facts["compiled"]["kernels"] if linker_version() else 0
    assert len(facts.get("usage", [])) == expected
    assert all(row["spilled_bytes"] == 0 for row in facts.get("usage", []))


def test_the_listing_of_a_kernel_is_a_module_of_its_own(made: Path) -> None:
    device = FakeCudaTarget().open()
    for path in sorted((made / "stages").glob("*.ptx")):
        library = device.call("cuLibraryLoadData", path.read_bytes() + b"\0")
        assert device.call("cuLibraryGetKernel", library, path.stem.encode())


def test_a_compiled_file_runs_on_the_device(
    made: Path, pair: Callable[[str], list[lamina.LLM]]
) -> None:
    found = lamina.LLM(made / "tiny.lamina", target=FakeCudaTarget()).logits(TOKENS[:3])
    assert np.array_equal(found, pair("gpt2")[0].logits(TOKENS[:3]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ('cuda{arch="sm_33"}', "option arch: expected sm_80, .* got 'sm_33'"),
        ('cuda{kv="f64"}', "option kv: expected f32 or f16, got 'f64'"),
        ("cuda{device=1.5}", "option device: expected a whole number"),
        ("cuda{speed=9}", "no option 'speed'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(folder: Path, spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lamina.compile(lamina.read(folder), target=spec)


def test_the_bare_target_says_that_there_is_no_driver(folder: Path) -> None:
    with pytest.raises(TargetUnavailable, match="no NVIDIA driver"):
        lamina.compile(lamina.read(folder), target="cuda")
