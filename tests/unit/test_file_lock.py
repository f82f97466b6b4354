import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

from lamina.targets.file_lock import alone

HOLDER = """
import sys, time
from pathlib import Path
from lamina.targets.file_lock import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time_is_inside(tmp_path: Path) -> None:
    inside: list[int] = []

    def work(_: int) -> int:
        with alone(tmp_path / "new" / "lock"):
            inside.append(1)
            sleep(0.002)
            return len(inside) - inside.pop()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(work, range(30))) == {0}


def test_the_file_is_gone_when_nobody_is_inside(tmp_path: Path) -> None:
    with alone(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()
    assert not list(tmp_path.iterdir())


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, tmp_path / "lock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
        start = monotonic()
        with alone(tmp_path / "lock", patience_s=30):
            assert monotonic() - start < 10


def test_patience_ends(tmp_path: Path) -> None:
    with alone(tmp_path / "lock"):
        start = monotonic()
        with alone(tmp_path / "lock", patience_s=0.1):
            assert monotonic() - start < 5
        assert (tmp_path / "lock").exists()


def test_without_a_place_for_the_file_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with alone(tmp_path / "file" / "lock"):
        pass
