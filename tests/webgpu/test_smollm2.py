"""SmolLM2 on the adapter: the tokens of the exact run, with weights that stay packed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import lamina

GREEDY = Path(__file__).parents[1] / "golden" / "smollm2_greedy.json"


@pytest.mark.gpu
def test_a_model_writes_the_tokens_of_the_exact_run(device, fetched: Callable[[str], Path]) -> None:
    golden = json.loads(GREEDY.read_text())
    with lamina.LLM(fetched("smollm2"), "webgpu", cache_tokens=64) as llm:
        (done,) = llm.generate([golden["tokens"]], max_new_tokens=16)
    assert done.token_ids == golden["greedy16_exact"]
