"""A tiny language model that can write."""

import json
from pathlib import Path

import pytest
from checkpoints import CHECKPOINTS
from history_model import END, byte_tokenizer


@pytest.fixture(scope="session")
def bytewise_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, a tokenizer of bytes, and a chat template."""
    path = CHECKPOINTS["llama"]().write(tmp_path_factory.mktemp("llama"))
    byte_tokenizer().backend.save(str(path / "tokenizer.json"))
    template = "{% for m in messages %}{{ m.content }}!{% endfor %}"
    settings = {"eos_token": END, "chat_template": template}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path
