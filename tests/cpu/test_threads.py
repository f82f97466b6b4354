import os
from pathlib import Path

import pytest

from lamina.errors import InputError
from lamina.targets.cpu.threads import default_threads, thread_count

CPUS = len(os.sched_getaffinity(0))


def cgroup(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def membership(folder: Path, text: str) -> Path:
    (folder / "membership").write_text(text)
    return folder / "membership"


@pytest.mark.parametrize(
    ("line", "files", "threads"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "9900000 100000"}, CPUS),
        ("0::/", {"cpu.max": "max 100000"}, CPUS),
        ("0::/", {}, CPUS),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ("0::/../up", {"cpu.max": "100000 100000"}, 1),
        (
            "4:cpu,cpuacct:/",
            {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"},
            1,
        ),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, CPUS),
        ("4:memory:/", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, CPUS),
        ("0::/", {"cpu.max": "what is this"}, CPUS),
    ],
)
def test_threads_are_the_cpus_cut_to_the_cgroups_quota(
    tmp_path: Path, line: str, files: dict[str, str], threads: int
) -> None:
    groups = cgroup(tmp_path / "groups", {"x": "", **files})
    assert default_threads(groups, membership(tmp_path, f"{line}\n")) == threads


def test_threads_are_at_most_the_cpus_of_the_affinity_mask(tmp_path: Path) -> None:
    mask = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert default_threads() == 1
    finally:
        os.sched_setaffinity(0, mask)


@pytest.mark.parametrize("asked", [0, -1, 100_000])
def test_a_number_of_threads_out_of_range_is_refused(asked: int) -> None:
    with pytest.raises(
        InputError, match=f"threads is {asked}: expected a whole number from 1 to 512"
    ):
        thread_count(asked)


@pytest.mark.parametrize("asked", [1, CPUS, CPUS + 1, 512])
def test_what_is_asked_for_is_given_up_to_one_thread_a_cpu(asked: int) -> None:
    assert thread_count(asked) == min(asked, default_threads())
