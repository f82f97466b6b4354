import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lamina

SCRIPT = """
import sys
import lamina
print(lamina.LLM(sys.argv[1]).logits([3, 1, 4]).tobytes().hex())
print("xdsl" in sys.modules)
"""


def test_a_cached_start_gives_the_same_bits_without_the_compiler(
    tiny: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    path = str(tiny("llama")[1].source)
    first = lamina.LLM(path).logits([3, 1, 4]).tobytes().hex()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    command = [sys.executable, "-c", SCRIPT, path]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [first, "False"]
