"""Measured schedules: kept whole, merged, and left aside where they are damaged or do not fit."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from group_module import Body, module_of
from xdsl.ir import SSAValue

from lamina.compiler import lower, resolve_target
from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.errors import FormatError, InputError, LaminaError, LoweringError
from lamina.measure.schedule_store import keep_schedules, store_path
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.passes.schedules.database import (
    MOST_BYTES,
    Measured,
    database_bytes,
    database_digest,
    load_database,
    read_database,
    versions,
)
from lamina.passes.schedules.machine import Machine
from lamina.passes.schedules.neighbours import all_neighbours
from lamina.passes.schedules.scheduled import scheduled_groups
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.schedules import machine_of

MACHINE = Machine(cpu="a machine of tests")
KEY = "linear many f32 K=32 N=96: dot_general"
DEFAULT = {"m": 3, "n": 32, "r": 32, "k": 4}


def measured(**schedule: int) -> Measured:
    return Measured({**DEFAULT, **schedule}, 80.0, DEFAULT, 100.0, versions())


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))


def test_what_is_kept_is_read() -> None:
    path = keep_schedules(MACHINE, {KEY: measured(m=2), "other": measured(n=64)})
    assert read_database(MACHINE) == {KEY: measured(m=2), "other": measured(n=64)}
    assert path.name == f"{MACHINE.digest}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_database(MACHINE)[KEY].gain == pytest.approx(0.2)


def test_another_machine_has_schedules_of_its_own() -> None:
    keep_schedules(MACHINE, {KEY: measured()})
    assert read_database(replace(MACHINE, l2=1 << 21)) == {}


def test_what_was_kept_before_stays_but_for_what_is_dropped() -> None:
    keep_schedules(MACHINE, {"a": measured(m=1), "b": measured(m=2), "c": measured(m=4)})
    keep_schedules(MACHINE, {"b": measured(m=5)}, ["c", "none"])
    assert read_database(MACHINE) == {"a": measured(m=1), "b": measured(m=5)}


def test_a_file_of_nothing_is_taken_away() -> None:
    path = keep_schedules(MACHINE, {KEY: measured()})
    keep_schedules(MACHINE, {}, [KEY])
    assert not path.exists()
    assert list(path.parent.iterdir()) == []
    assert database_digest(MACHINE) == ""


KEEPER = """
import sys
from lamina.measure.schedule_store import keep_schedules
from lamina.passes.schedules.database import Measured, versions
from lamina.passes.schedules.machine import Machine
numbers = {"m": 1, "n": 16}
for n in range(20):
    found = {f"class {sys.argv[1]} {n}": Measured(numbers, 1.0, numbers, 2.0, versions())}
    keep_schedules(Machine(cpu="a machine of tests"), found)
"""


def test_two_processes_lose_nothing_of_each_other() -> None:
    command = [sys.executable, "-c", KEEPER]
    running = [subprocess.Popen([*command, name]) for name in "ab"]
    assert [each.wait() for each in running] == [0, 0]
    assert len(read_database(MACHINE)) == 40


GOOD = json.loads(database_bytes({KEY: measured()}, MACHINE))


def changed(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def entry(**fields: object) -> bytes:
    return changed(schedules={KEY: {**GOOD["schedules"][KEY], **fields}})


DAMAGED = [
    (b"", "is no file of schedules"),
    (b"[]", "is no file of schedules"),
    (b"\xff\xfe", "is no file of schedules"),
    (b"[" * 100_000, "is no file of schedules"),
    (database_bytes({KEY: measured()}, MACHINE)[:-9], "is no file of schedules"),
    (b" " * (MOST_BYTES + 1), "has more than 1048576 bytes"),
    (changed(format=2), "field format: expected 1, got 2"),
    (changed(machine={}), "field machine: it is of another machine"),
    (changed(schedules={"x" * 1001: {}}), "a class has 1001 letters"),
    (entry(schedule={"m": 1}), r"a schedule has the numbers \['m'\]"),
    (entry(schedule={"m": 1, "n": 2, "z": 3}), "a schedule has the numbers"),
    (entry(schedule={"m": -1, "n": 16}), "a schedule has the number -1"),
    (entry(schedule={"m": 1.5, "n": 16}), "a schedule has the number 1.5"),
    (entry(schedule={"m": True, "n": 16}), "a schedule has the number True"),
    (entry(nanoseconds=0), "a time is 0"),
    (entry(nanoseconds=float("nan")), "a time is nan"),
    (entry(nanoseconds=10**400), "a time is 1000"),
    (entry(versions=[]), "is no file of schedules"),
]


@pytest.mark.parametrize(("data", "told"), DAMAGED)
def test_a_damaged_file_is_one_warning_and_no_schedules(data: bytes, told: str) -> None:
    path = keep_schedules(MACHINE, {KEY: measured()})
    path.write_bytes(data)
    with pytest.raises(FormatError, match=told):
        load_database(path, MACHINE)
    with pytest.warns(UserWarning, match="no measured schedules are used") as warned:
        assert read_database(MACHINE) == {}
    assert len(warned) == 1


def test_a_damaged_file_is_written_anew() -> None:
    path = keep_schedules(MACHINE, {KEY: measured()})
    path.write_bytes(b"{")
    with pytest.warns(UserWarning, match="it is written anew"):
        keep_schedules(MACHINE, {"new": measured()})
    assert read_database(MACHINE) == {"new": measured()}


def test_a_folder_that_cannot_be_written_is_a_sentence() -> None:
    path = store_path(MACHINE)
    path.parent.mkdir()
    path.mkdir()
    with (
        pytest.raises(LaminaError, match=r"\.json: cannot be written: "),
        pytest.warns(UserWarning, match="cannot be read"),
    ):
        keep_schedules(MACHINE, {KEY: measured()})


def test_without_a_cache_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    assert read_database(MACHINE) == {}
    assert database_digest(MACHINE) == ""
    with pytest.raises(InputError, match="see LAMINA_DISK_CACHE"):
        keep_schedules(MACHINE, {KEY: measured()})


def test_measured_schedules_make_other_artifacts() -> None:
    target, machine = resolve_target("cpu"), machine_of(detect())
    before = target.host()
    keep_schedules(machine, {KEY: measured()})
    assert target.host() != before
    assert resolve_target("cpu{tuned=false}").host() == before


HOST = """
import sys
from lamina.targets.cpu.target import CpuTarget
CpuTarget().host()
print([name for name in sys.modules if name.startswith("xdsl")])
"""


def test_what_was_measured_is_told_apart_without_the_compiler() -> None:
    machine = machine_of(detect())
    keep_schedules(machine, {KEY: measured()})
    command = [sys.executable, "-c", HOST]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def floats(body: Body) -> SSAValue:
    """A product with 96 packed columns of f32, whose end takes pairs of panels."""
    x, w = body.arg("f32[T, 32]"), body.arg("f32[6, 32, 16]")
    y = body.add(nn.DotGeneralOp(x, w, [(1, 1)]))
    return body.add(nn.ReshapeOp(y, [Dim.symbol("T"), 96]))


def scheduled(**options: object) -> str:
    module = module_of(floats, "linear")
    chosen = ScheduleGroupsPass(cpu=MACHINE.cpu, **options)  # type: ignore[arg-type]
    return str(lower(module, "reference", [chosen]))


def test_a_measured_schedule_takes_the_place_of_the_models() -> None:
    keep_schedules(MACHINE, {KEY: measured(m=2, n=48, r=16)})
    assert "m = 2 : i64, n = 48 : i64, r = 16 : i64, k = 4 : i64, tuned = 1" in scheduled(
        tuned=True
    )
    assert "m = 3 : i64, n = 32 : i64, r = 32 : i64, k = 4 : i64}" in scheduled()


UNFIT = [
    ({"n": 40}, "can be finished in tiles of 16, 32, 48, 96 columns"),
    ({"n": 64}, "can be finished in tiles of 16, 32, 48, 96 columns"),
    ({"r": 48}, "r divides n"),
    ({"m": 100, "n": 96, "r": 96}, "m \\* r sums take 600 registers"),
    ({"k": 1000}, "k ends at 256"),
    ({"m": 20, "n": 96, "r": 96, "k": 256}, "m \\* r \\* k are 30720 products"),
]


@pytest.mark.parametrize(("numbers", "told"), UNFIT)
def test_a_measured_schedule_that_does_not_fit_is_left_aside(
    numbers: dict[str, int], told: str
) -> None:
    keep_schedules(MACHINE, {KEY: measured(**numbers)})
    with pytest.warns(UserWarning, match=f"measured schedule of {KEY} is left aside: .*{told}"):
        assert "m = 3 : i64, n = 32 : i64" in scheduled(tuned=True)


def test_what_other_versions_measured_is_left_aside() -> None:
    keep_schedules(MACHINE, {KEY: replace(measured(m=2), versions={"lamina": "0.0"})})
    assert "m = 3 : i64" in scheduled(tuned=True)


def test_a_given_schedule_comes_before_all() -> None:
    keep_schedules(MACHINE, {KEY: measured(m=2)})
    text = scheduled(tuned=True, given=(f"{KEY} -> m=5 n=96 r=16",))
    assert "#tile.schedule<{m = 5 : i64, n = 96 : i64, r = 16 : i64}>" in text


@pytest.mark.parametrize(
    "text", ["", "m=1 n=2", f"{KEY} -> m", f"{KEY} -> m=1", f"{KEY} -> m=1 n=2 q=3"]
)
def test_a_given_schedule_that_says_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="schedule-groups: given is "):
        ScheduleGroupsPass(given=(text,))


def test_a_given_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(LoweringError, match="tiles of 16, 32, 48, 96 columns"):
        scheduled(given=(f"{KEY} -> m=5 n=64 r=16",))


def test_neighbours_fit_and_are_no_twins() -> None:
    module = lower(module_of(floats, "linear"), "reference", [ScheduleGroupsPass()])
    (found,) = scheduled_groups(module, 1)
    beside = all_neighbours(found)
    assert found.key == KEY
    assert dict(found.numbers) == DEFAULT
    assert DEFAULT not in beside
    assert len({str(each) for each in beside}) == len(beside)
    assert {each["m"] for each in beside} == {2, 3, 4, 6}
    assert {each["n"] for each in beside} == {16, 32, 48, 96}
    assert {each["k"] for each in beside} == {2, 4, 8, 16}
