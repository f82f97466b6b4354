from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lamina

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(("name", "file"), [("magika", "magika"), ("silero-vad", "silero_vad")])
def test_onnx_files_give_what_onnx_runtime_gives(
    fetched: Callable[[str], Path], name: str, file: str
) -> None:
    golden = np.load(GOLDEN / f"{file}.npz", allow_pickle=False)
    given = {key[3:]: golden[key] for key in golden.files if key.startswith("in:")}
    found = lamina.compile(lamina.read(fetched(name)), "cpu")(**given)
    for n, y in enumerate(found.values()):
        wanted = golden[f"out:{n}"]
        assert y.shape == wanted.shape
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
