"""The script that checks a device, on one that interprets PTX; and where there is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints import CHECKPOINTS

from lamina.errors import TargetUnavailable
from lamina.targets.cuda.driver import load_driver

pytestmark = pytest.mark.gpu

BENCH = Path(__file__).parents[2] / "bench"


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCH / "gpu_check.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def dry(folder: Path, *arguments: object) -> list[dict[str, object]]:
    """Run stages, and return what they found."""
    run = check("--dry-run", "--output", folder, *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_what_a_device_reaches_is_measured_and_products_are_checked(tmp_path):
    found = dry(tmp_path, "--stages", "limits", "products")
    assert all(record["ok"] for record in found if "worst" in record)
    assert len([record for record in found if record["stage"] == "products"]) == 6
    assert [record["bar"] for record in found if "bar" in record] == [0.45, 0.45]
    assert json.loads((tmp_path / "limits.json").read_text())["copy"] > 0


@pytest.mark.gpu
def test_every_stage_finds_all_in_order(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    found = dry(tmp_path, "--model", CHECKPOINTS["llama"]().write(folder))
    stages = dict.fromkeys(record["stage"] for record in found if "took_s" in record)
    assert len(stages) == 11
    assert not [record for record in found if record.get("ok") is False]
    assert any(record.get("name") == "tiny" and record["same_tokens"] == 3 for record in found)
    assert {path.name for path in (tmp_path / "golden").iterdir()} >= {"embedding.npz", "llama.npz"}


def test_without_a_device_there_is_one_sentence(tmp_path):
    try:
        load_driver()
    except TargetUnavailable:
        pass
    else:
        pytest.skip("there is a driver")
    run = check("--output", tmp_path)
    assert run.returncode == 1
    assert not run.stdout
    assert len(run.stderr.splitlines()) == 1
    assert "cuda" in run.stderr


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCH)
    import gpu_check

    return gpu_check


def test_a_stage_that_takes_too_long_is_ended(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "GRACE", -0.7)
    options = script.parser().parse_args(["--dry-run", "--output", str(tmp_path)])
    (ended,) = script.watched(options, "kernels", 1)
    assert (ended["ok"], ended["why"]) == (False, "ended after 1 s")


def test_a_stage_that_dies_says_what_it_said_last(script, tmp_path):
    options = script.parser().parse_args(["--dry-run", "--output", str(tmp_path / "missing")])
    *_, ended = script.watched(options, "limits", 30)
    assert ended["ok"] is False
    assert "No such file" in ended["why"]


@pytest.mark.gpu
def test_a_stage_goes_on_behind_what_ended_it(script, tmp_path):
    (tmp_path / "golden" / "split_kv_merge.npz").mkdir(parents=True)
    options = script.parser().parse_args(["--dry-run", "--output", str(tmp_path)])
    ended, *others, last = script.watched(options, "zoo", 30)
    assert (ended["name"], ended["ok"]) == ("split_kv_merge", False)
    assert "Is a directory" in ended["why"]
    assert [record["ok"] for record in others] == [True, True]
    assert "ok" not in last


def test_help_has_examples():
    run = check("--help")
    assert run.returncode == 0
    assert "python bench/gpu_check.py --dry-run" in run.stdout
