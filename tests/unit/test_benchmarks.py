import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lamina.targets.timeline import WAITING, TracedStep

BENCH = Path(__file__).parents[2] / "bench"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def step(*events: tuple[int, int, int, int, int], lost: int = 0) -> TracedStep:
    return TracedStep([], np.array(events, np.int64), lost)


def test_a_step_is_cut_where_the_first_worker_begins_the_next_part() -> None:
    found = module("step").spans(
        step(
            (1, 7, 1, 100, 160),
            (0, 7, 1, 120, 130),
            (0, WAITING, 0, 130, 200),
            (0, 3, 1, 205, 300),
            (1, 3, 1, 200, 290),
        ),
        2,
    )
    np.testing.assert_allclose(found, [100e-9, 100e-9])


def test_calls_that_prepare_the_first_part_do_not_count() -> None:
    found = module("step").spans(step(*((0, n, 1, 10 * n, 10 * n + 9) for n in range(5))), 2)
    np.testing.assert_allclose(found, [20e-9, 19e-9])


def test_a_step_whose_events_found_no_room_is_refused() -> None:
    with pytest.raises(SystemExit, match="3 events of the step found no room"):
        module("step").spans(step((0, 0, 1, 0, 1), lost=3), 1)


def test_results_that_differ_end_the_run() -> None:
    check = module("step").check_close
    check("x", np.array([1.0, 2.0]), np.array([1.0, 2.01]), 0.01)
    with pytest.raises(SystemExit, match="x: differs"):
        check("x", np.array([1.0, np.nan]), np.array([1.0, 2.0]), 0.01)


def test_the_best_peer_counts_and_our_other_forms_do_not() -> None:
    seconds = {"lamina": 2.0, "lamina unfused": 1.0, "a": 3.0, "b": 4.0}
    row = module("figures").Row("x", 1, seconds, 6.0, "GFLOP/s", 1.5)
    assert (row.ratio, row.rate, row.of_limit) == (1.5, 3.0, 0.75)


def test_a_first_call_that_is_short_only_warms_up() -> None:
    turns, times = module("turns"), iter([0.04, 0.08, 0.06])
    assert turns.averaged(lambda: [next(times)]) == [pytest.approx(0.07)]
    assert turns.averaged(lambda: [0.2]) == [0.2]


def test_variables_that_pin_a_peer_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    environ = module("peer").environment(None)
    assert "OPENBLAS_CORETYPE" not in environ
    assert module("peer").environment("avx2")["ATEN_CPU_CAPABILITY"] == "avx2"


def test_a_level_is_told_or_refused_where_there_are_peers() -> None:
    restrictions = module("peer").restrictions
    assert restrictions("avx2", None) == restrictions(None, "python") == ""
    assert "ONEDNN_MAX_CPU_ISA=AVX2" in restrictions("avx2", "python")
    with pytest.raises(SystemExit, match="peers cannot be restricted to neon: choose avx2"):
        restrictions("neon", "python")


def test_rounds_after_the_third_end_with_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    medians, calls = module("turns").medians, list[float]()
    sides = {"lamina": lambda: calls.append(1.0) or [float(len(calls))]}
    assert medians(sides, 5, budget=0.0) == {"lamina": [2.0]}
    assert capsys.readouterr().out.startswith("median of 3 rounds, which took ")
    assert medians(sides, 5) == {"lamina": [6.0]}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("reference", "expected the CPU target, got 'reference'"),
        ("cpu{features=avx3}", "there is no CPU level 'avx3'"),
    ],
)
def test_a_target_that_cannot_be_measured_is_refused(spec: str, said: str) -> None:
    done = script("linears", "--target", spec)
    assert done.returncode == 2
    assert f"argument --target: {said}" in done.stderr


def script(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script, which finds the package beside it whether or not that is installed."""
    environ = os.environ | {"PYTHONPATH": str(BENCH.parent)}
    command = [sys.executable, str(BENCH / f"{name}.py"), *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environ)


def test_rows_are_measured_without_a_peer(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    options = ["--only", "silu 512*", "--rounds", "1", "--threads", "1", "--json", str(path)]
    done = script("rows", *options)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert row["name"] == "silu 512x576"
    assert row["rate"] > 0


@pytest.mark.parametrize(
    ("name", "said"), [("limits", "0"), ("rows", "-1"), ("start", "1.5"), ("conditions", "0")]
)
def test_there_is_no_measuring_without_rounds(name: str, said: str) -> None:
    done = script(name, f"--rounds={said}")
    assert done.returncode == 2
    assert f"argument --rounds: expected a whole number from 1 up, got '{said}'" in done.stderr


@pytest.mark.parametrize(
    ("value", "bar", "most", "met"),
    [
        (2.6, 2.5, False, True),
        (2.4, 2.5, False, False),
        (1.1, 1.2, True, True),
        (1.3, 1.2, True, False),
        (None, 2.5, False, None),
        (2.6, None, False, None),
    ],
)
def test_a_figure_is_held_to_its_bar(
    value: float | None, bar: float | None, most: bool, met: bool | None
) -> None:
    figure = module("bars").Figure("x", 2, value, bar, {"lamina": 3.0}, most=most)
    assert figure.met is met
    assert figure.as_dict()["met"] is met
    assert str(figure).endswith("lamina 3.0 tokens/s")
