"""The tests beside this file import `history_model` and `checkpoints` by their bare names."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"


def _load(path: Path) -> None:
    if path.stem in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


for _path in (
    HERE.parent / "frontend" / "gguf_writer.py",
    MODELS / "ggml_blocks.py",
    MODELS / "numpy_llama.py",
    MODELS / "numpy_gpt2.py",
    MODELS / "checkpoints.py",
    HERE / "history_model.py",
):
    _load(_path)


@pytest.fixture(scope="session")
def bytewise_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, a tokenizer of bytes, and a chat template."""
    from checkpoints import CHECKPOINTS
    from history_model import END, byte_tokenizer

    path = CHECKPOINTS["llama"]().write(tmp_path_factory.mktemp("llama"))
    byte_tokenizer().backend.save(str(path / "tokenizer.json"))
    template = "{% for m in messages %}{{ m.content }}!{% endfor %}"
    settings = {"eos_token": END, "chat_template": template}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path
