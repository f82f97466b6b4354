"""`lamina tune` on a product of two tensors, and on a tiny encoder and a tiny decoder.

So that winners are sure whatever else the machine does, stages are tuned whose passes choose poor
schedules by default: one row by one panel.
"""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoints import CHECKPOINTS

import lamina
from lamina.cli.run import make_up
from lamina.compiler import lower
from lamina.measure.schedule_store import keep_schedules
from lamina.passes.schedules.database import Measured, read_database, versions
from lamina.progress import listening
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.schedules import machine_of

Command = Callable[..., tuple[int, str, str]]

MACHINE = machine_of(detect())
QUICK = ("--threads", 1, "--repeat", 3, "--seconds", 0)
POOR = "rows=1 few=16 float-rows=1 float-columns=16 "
PRODUCT = """
!a = tensor<?x64xf32, #nn.dims<["A"]>>
!b = tensor<64x?xf32, #nn.dims<["B"]>>
!y = tensor<?x?xf32, #nn.dims<["A", "B"]>>
func.func @forward(%a: !a {lamina.input = "a"}, %b: !b {lamina.input = "b"})
    -> (!y {lamina.output = "y"}) {
  %y = nn.dot_general %a, %b {contract = [[1, 0]]} : (!a, !b) -> !y
  func.return %y : !y
}
"""
SILU = """
!x = tensor<?xf32, #nn.dims<["N"]>>
func.func @forward(%x: !x {lamina.input = "x"}) -> (!x {lamina.output = "y"}) {
  %y = nn.silu %x : !x
  func.return %y : !x
}
"""
KEY = "dot f32[?, K=64] x f32[K=64, ?]: dot_general"
SIZES = ("--dim", "A=64", "--dim", "B=256")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules of one test are no other's."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))


def poor(path: Path, folder: Path) -> Path:
    """Return the import of a model, to go on with a poor choice of schedules."""
    lower(lamina.read(path), "cpu", dump=folder)
    stage = folder / "000-import.mlir"
    text = stage.read_text()
    stage.write_text(text.replace("schedule-groups{", f"schedule-groups{{{POOR}"))
    return stage


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product of two tensors."""
    path = tmp_path_factory.mktemp("product") / "product.mlir"
    path.write_text(PRODUCT)
    return path


@pytest.fixture(scope="module")
def poor_product(product: Path) -> Path:
    """The same, to go on with a poor choice of schedules."""
    return poor(product, product.parent / "stages")


def test_a_faster_schedule_is_found_and_kept(command: Command, poor_product: Path) -> None:
    code, out, err = command("tune", poor_product, *SIZES, *QUICK, "--json")
    assert code == 0, err
    told = json.loads(out)
    (found,) = told["classes"]
    assert (found["class"], found["default"]) == (KEY, {"m": 1, "n": 16})
    assert found["winner"]["m"] > 1
    assert 0.03 <= found["gain"] == pytest.approx(read_database(MACHINE)[KEY].gain)
    assert (told["kept"], told["rounds"], told["complete"]) == (1, 2, False)
    assert Path(told["file"]).name == f"{MACHINE.digest}.json"


def test_people_get_a_table(command: Command, poor_product: Path) -> None:
    code, out, err = command("tune", poor_product, *SIZES, *QUICK)
    assert code == 0, err
    first, row, last = out.splitlines()
    assert first.split() == ["class", "default", "us", "winner", "us", "gain"]
    assert row.startswith(f"{KEY}  m=1 n=16  ")
    assert row.endswith("%")
    assert re.match(r"2 rounds in .* s, not all that there are: 1 faster schedules, kept in", last)


def test_an_interrupt_keeps_what_was_confirmed(command: Command, poor_product: Path) -> None:
    def interrupt(work: str, done: int, total: int) -> None:
        if work == "rounds" and read_database(MACHINE):
            os.kill(os.getpid(), signal.SIGINT)

    with listening(interrupt):
        code, out, err = command("tune", poor_product, *SIZES, *QUICK[:4], "--json")
    assert code == 130
    assert "interrupted: what was confirmed so far is kept (1 classes)" in err
    assert json.loads(out)["interrupted"]
    assert list(read_database(MACHINE)) == [KEY]


def test_a_whole_search_forgets_what_is_not_confirmed_again(
    command: Command, product: Path
) -> None:
    numbers = {"m": 1, "n": 16}
    stale = Measured(numbers, 1.0, numbers, 2.0, versions())
    keep_schedules(MACHINE, {KEY: stale, "another": stale})
    code, out, err = command("tune", product, *SIZES, "--threads", 1, "--repeat", 1, "--json")
    assert code == 0, err
    assert json.loads(out)["complete"]
    kept = read_database(MACHINE)
    assert kept.get(KEY) != stale
    assert kept["another"] == stale


def test_a_dry_run_lists_what_would_be_tried(command: Command, product: Path) -> None:
    code, out, _ = command("tune", product, "--dry-run", "--json")
    assert code == 0
    told = json.loads(out)
    (found,) = told["classes"]
    assert told["machine"]["registers"] == MACHINE.registers
    assert len(found["candidates"]) > 3
    assert found["default"] not in found["candidates"]
    code, table, _ = command("tune", product, "--dry-run")
    assert [line.partition("  ")[0] for line in table.splitlines()] == ["class", KEY]
    assert read_database(MACHINE) == {}


def test_a_tuned_encoder_gives_the_same_bits_and_says_what_is_tuned(
    command: Command, tmp_path: Path
) -> None:
    encoder, sizes = CHECKPOINTS["bert"]().write(tmp_path), ("--dim", "B=2", "--dim", "L=31")
    stage = poor(encoder, tmp_path / "stages")
    code, out, err = command("tune", stage, *sizes, *QUICK, "--kernel", "linear*", "--json")
    assert code == 0, err
    won = [each for each in json.loads(out)["classes"] if each["winner"]]
    assert all(each["default"]["m"] == 1 < each["winner"]["m"] for each in won)
    model = lamina.read(encoder)
    tuned, plain = (lamina.compile(model, f"cpu{{tuned={on}}}") for on in ("true", "false"))
    inputs = make_up(plain.signature, True, {"B": 2, "L": 31}, 0)
    for name, expected in plain(**inputs).items():
        np.testing.assert_array_equal(tuned(**inputs)[name], expected, strict=True)
    code, out, err = command("bench", encoder, *sizes, "--repeat", 1, "--threads", 1)
    assert code == 0, err
    marked = [line for line in out.splitlines() if line.endswith(" tuned")]
    assert len(marked) == sum(len(each["kernels"]) for each in won) > 0


def test_a_decoder_is_tuned_in_both_phases_and_gives_the_same_bits(
    command: Command, tmp_path: Path
) -> None:
    decoder, ids = CHECKPOINTS["gguf-q4_0"]().write(tmp_path), [3, 1, 4, 1, 5, 9, 2, 6, 5]
    before = lamina.LLM(decoder).logits(ids)
    stage = poor(decoder, tmp_path / "stages")
    given = ("--prompt-tokens", 40, "-n", 4, *QUICK, "--json")
    code, out, err = command("tune", stage, *given)
    assert code == 0, err
    classes = {each["class"]: each for each in json.loads(out)["classes"]}
    ran = {key.split()[1] for key, each in classes.items() if not each["skipped"]}
    heads = [each for key, each in classes.items() if "many" in key and "N=301" in key]
    assert ran == {"few", "many"}
    assert [each["skipped"] for each in heads] == ["too few rows run"]
    assert read_database(MACHINE)
    np.testing.assert_array_equal(lamina.LLM(decoder).logits(ids), before, strict=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--kernel", "nothing*"), "no kernel of this model that has a schedule is called"),
        (("--target", "reference"), "reference has no pass schedule-groups for this model"),
        (("--tokens", 4), "--tokens: is for models that write text"),
    ],
)
def test_what_cannot_be_tuned_is_refused(
    command: Command, product: Path, given: tuple[object, ...], message: str
) -> None:
    code, out, err = command("tune", product, "--threads", 1, *given)
    assert (code, out) == (1, "")
    assert message in err


def test_a_model_without_products_has_nothing_to_tune(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "silu.mlir"
    path.write_text(SILU)
    code, out, err = command("tune", path, "--threads", 1)
    assert (code, out) == (1, "")
    assert "no kernel of this model has a schedule: there is nothing to tune" in err


def test_a_folder_that_takes_no_schedules_is_said_before_anything_is_measured(
    command: Command, product: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "schedules").write_text("")
    heard: list[str] = []
    with listening(lambda work, done, total: heard.append(work)):
        code, out, err = command("tune", product, *SIZES, *QUICK)
    assert (code, out) == (1, "")
    assert f"{MACHINE.digest}.json: cannot be written: " in err
    assert "rounds" not in heard


def test_without_a_cache_folder_nothing_is_tuned(
    command: Command, product: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    code, _, err = command("tune", product)
    assert code == 1
    assert "see LAMINA_DISK_CACHE" in err


def test_a_compiled_model_has_its_schedules(
    command: Command, product: Path, tmp_path: Path
) -> None:
    assert command("compile", product, "-o", tmp_path / "x.lamina")[0] == 0
    code, _, err = command("tune", tmp_path / "x.lamina")
    assert code == 1
    assert "is compiled, its schedules are chosen" in err
