"""What a start holds in memory grows with the model's file, and not with anything else."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from checkpoints import ODD, GgufSizes, gguf_llama, save_gguf

SCRIPT = """
import sys
from pathlib import Path
import lamina
lamina.LLM(sys.argv[1], cache_tokens=int(sys.argv[2])).logits([3, 1, 4])
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
SIZES = replace(ODD, layers=8)
SLACK = 16e6

Most = Callable[[Path, str, int], int]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def written(sizes: GgufSizes, folder: Path) -> Path:
    return save_gguf(sizes.metadata, gguf_llama("q4_1", sizes=sizes))(folder)


@pytest.fixture(scope="module")
def most(tmp_path_factory: pytest.TempPathFactory) -> Most:
    """Start from a file with a cache folder by name: the most bytes that the process held."""
    folder = tmp_path_factory.mktemp("caches")

    def most(path: Path, cache: str, cache_tokens: int = 256) -> int:
        path_of_modules = os.pathsep.join([os.getcwd(), *sys.path])
        given = {"PYTHONPATH": path_of_modules, "LAMINA_CACHE": str(folder / cache)}
        command = [sys.executable, "-c", SCRIPT, str(path), str(cache_tokens)]
        done = subprocess.run(
            command, env=os.environ | given, capture_output=True, text=True, check=True
        )
        return int(done.stdout) * 1024

    return most


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of half a megabyte."""
    return written(SIZES, tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 47 MB, in matrices of 2 MB."""
    return written(replace(SIZES, between=32768), tmp_path_factory.mktemp("large"))


def test_memory_grows_by_no_more_than_a_third_above_the_file(
    small: Path, large: Path, most: Most
) -> None:
    more = large.stat().st_size - small.stat().st_size
    assert more > 40e6
    for start in ("cold", "warm"):
        grown = most(large, "large") - most(small, "small")
        assert grown < 1.3 * more + SLACK, start


def test_a_cache_that_is_not_used_takes_no_memory(small: Path, most: Most) -> None:
    assert 2 * SIZES.layers * SIZES.narrow * 2**18 * 2 > 10 * SLACK
    most(small, "small")
    assert most(small, "small", 2**18) - most(small, "small") < SLACK
