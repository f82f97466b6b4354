"""Machine code of PTX, and its instructions; tests are skipped where the wheels are missing."""

import os
import re
import shutil
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from lamina.targets.cuda.cubins import Cubin, link

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)


def missing(package: str) -> None:
    """Skip without a package, or fail where `.ci/run` should bring it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{package} is not installed", pytrace=False)
    pytest.skip(f"{package} is not installed")


def linked(ptx: str, arch: str) -> Cubin:
    found = link(ptx.encode(), arch)
    if found is None:
        missing("nvidia-nvjitlink or cuda-python")
    return found


def listing(cubin: Cubin, folder: Path) -> str:
    """Return machine code as nvdisasm lists it."""
    try:
        listed = files("nvidia-cuda-nvdisasm") or ()
        own = next((str(each.locate()) for each in listed if each.name == "nvdisasm"), None)
    except PackageNotFoundError:
        own = None
    tool = own or shutil.which("nvdisasm") or missing("nvidia-cuda-nvdisasm")
    path = folder / "kernels.cubin"
    path.write_bytes(cubin.code)
    return subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout


def instructions(cubin: Cubin, folder: Path) -> Counter[str]:
    """Count the instructions of machine code."""
    return Counter(_INSTRUCTION.findall(listing(cubin, folder)))
