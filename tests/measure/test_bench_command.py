"""`lamina bench` on tiny models; the peer is the protocol's script with a stand-in for its library."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import CHECKPOINTS

from lamina.measure.peers.peer import running

Command = Callable[..., tuple[int, str, str]]

SOFTMAX = Path(__file__).parents[2] / "examples" / "softmax.mlir"
SHORT = ("--prompt-tokens", 40, "-n", 3, "--repeat", 2, "--threads", 1)
LIBRARY = """
import ctypes, os
__version__ = "0.0"
pins = [name for name in os.environ if name.startswith("OMP_")]
info = ctypes.create_string_buffer(f"pins {pins}".encode(), 64)
def llama_print_system_info():
    return ctypes.addressof(info)
class Llama:
    def __init__(self, path, **options):
        assert options["n_threads"] == 1 and options["n_ctx"] == 43
        print("noise of a library")
    def reset(self): pass
    def eval(self, ids): assert len(ids) in (1, 40)
"""


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CHECKPOINTS["gguf-q4_0"]().write(tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the stand-in library."""
    folder = tmp_path_factory.mktemp("peer")
    (folder / "llama_cpp.py").write_text(LIBRARY)
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def told(command: Command, gguf: Path, interpreter: Path) -> dict[str, Any]:
    """What the command says of a decoder beside a peer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        peers = ("--vs", "llama.cpp", "--peer-python", interpreter)
        code, out, err = command("bench", gguf, *SHORT, *peers, "--json", "--assert", "decode>=0")
    assert code == 0, err
    return json.loads(out)


def test_a_peer_that_goes_on_does_not_read_the_prompt_again(gguf: Path, interpreter: Path) -> None:
    unread = range(41)
    with running("llama.cpp", gguf, 1, 43, str(interpreter)) as peer:
        peer.run(range(40), 0)
        assert len(peer.run(unread, 3, again=True)) == 2


def test_a_decoder_has_two_phases_with_the_peers_beside(told: dict[str, Any]) -> None:
    assert [(each["name"], each["tokens"]) for each in told["phases"]] == [
        ("prefill", 40),
        ("decode", 3),
    ]
    for phase in told["phases"]:
        assert phase["rate"] == phase["tokens"] / phase["seconds"]
        assert phase["peers"]["llama.cpp"]["seconds"] > 0
    assert told["phases"][1]["steps"] == 3
    assert told["peers"] == {"llama.cpp": "llama-cpp-python 0.0: pins []"}


def test_kernels_come_with_what_they_reach(told: dict[str, Any]) -> None:
    for phase in told["phases"]:
        step = phase["step"]
        linears = [each for each in step["kernels"] if "linear" in each["kernel"]]
        assert linears
        assert all(each["schedule"] and 0 < each["of_limit"] for each in linears)
        parts = [each["seconds"] for each in step["kernels"]]
        rest = step["waiting"] + step["between"] + step["other"]
        assert sum(parts) + rest == pytest.approx(step["seconds"])
        assert parts == sorted(parts, reverse=True)
    assert told["phases"][1]["of_reading"] > 0


def test_people_get_a_table_and_missed_bounds_a_sentence(command: Command, gguf: Path) -> None:
    code, out, err = command("bench", gguf, *SHORT, "--assert", "decode>=123456789")
    assert code == 1
    assert err.startswith("error: --assert decode>=1.23457e+08: it is ")
    lines = out.splitlines()
    assert lines[2].startswith("limits: reading ")
    assert [line.split(":")[0] for line in lines if ": " in line][3:] == ["prefill", "decode"]
    assert sum(line.startswith("(between steps)") for line in lines) == 2


def test_another_model_has_one_phase_on_made_up_inputs(command: Command, tmp_path: Path) -> None:
    folder = CHECKPOINTS["bert"]().write(tmp_path)
    sizes = ("--dim", "B=2", "--dim", "L=5")
    code, out, err = command("bench", folder, *sizes, "--repeat", 1, "--threads", 1, "--json")
    assert code == 0, err
    (phase,) = json.loads(out)["phases"]
    assert (phase["name"], phase["steps"], phase["tokens"]) == ("run", 1, 0)
    assert phase["rate"] == 1 / phase["seconds"]


def test_limits_are_those_of_the_level_that_the_code_is_for(command: Command) -> None:
    given = ("--repeat", 1, "--threads", 1, "--target", "cpu{features=generic}", "--json")
    code, out, err = command("bench", SOFTMAX, *given)
    assert code == 0, err
    limits = json.loads(out)["limits"]
    assert limits["read"] > 0
    assert limits["float_ops"] == limits["integer_ops"] == 0


def test_a_target_without_a_timeline_has_rates_alone(command: Command, gguf: Path) -> None:
    given = ("--prompt-tokens", 2, "-n", 1, "--repeat", 1, "--threads", 1, "--target", "reference")
    code, out, err = command("bench", gguf, *given)
    assert code == 0
    assert "tokens/s" in out
    assert "(between steps)" not in out
    assert "keeps no timeline" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--vs", "torch"), "--vs torch: takes modules that are written in Python"),
        (("--vs", "onnxruntime"), "--vs onnxruntime: takes ONNX files, and cannot run model.gguf"),
        (("--vs", "vllm"), "--vs vllm: expected some of llama.cpp, "),
        (("--vs", "llama.cpp", "--peer-python", "/nowhere"), "/nowhere: cannot be run"),
        (("--assert", "decode"), "--assert decode: expected NAME>=NUMBER"),
        (("--prompt-tokens", 500, "-n", 13), "beyond the model's context of 512"),
        (("--dim", "T=4"), "--dim T=4: this model writes text"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_long_work(
    command: Command, gguf: Path, given: tuple[object, ...], message: str
) -> None:
    code, out, err = command("bench", gguf, *given)
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize("option", ["--prompt-tokens", "--tokens"])
def test_another_model_has_no_tokens(command: Command, option: str) -> None:
    code, out, err = command("bench", SOFTMAX, option, 4)
    assert (code, out) == (1, "")
    assert f"{option}: is for models that write text" in err


def test_a_missing_peer_is_named(command: Command, gguf: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    code, _, err = command("bench", gguf, "--vs", "llama.cpp", "--peer-python", python)
    assert code == 1
    assert f"--vs llama.cpp: {python} has no module llama_cpp" in err


def test_a_peer_that_ends_is_a_sentence(
    command: Command, gguf: Path, interpreter: Path, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {interpreter} "$@"\nexit 3\n')
    python.chmod(0o755)
    given = (*SHORT, "--vs", "llama.cpp", "--peer-python", python)
    code, _, err = command("bench", gguf, *given)
    assert (code, err) == (1, "error: llama.cpp ended: what it said is above\n")
