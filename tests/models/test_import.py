import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkpoints
import ml_dtypes
import numpy as np
import pytest
from checkpoints import CHECKPOINTS, DECODERS, HIDDEN, LAYERS, VOCAB, Checkpoint
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import lamina
from lamina.dialects.text import parse_module
from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Model
from lamina.plugins import manager

Tiny = Callable[[str], tuple[Checkpoint, Model]]
ROLES = ["tokens", "positions", "query_start", "table", "work", "rows"]


def forward(module: ModuleOp) -> FuncOp:
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return function


def attributes(entries: Any) -> list[dict[str, str]]:
    return [{key: value.data for key, value in entry.data.items()} for entry in entries]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_an_imported_module_verifies_and_is_its_own_text(tiny: Tiny, name: str) -> None:
    _, model = tiny(name)
    model.module.verify()
    again = parse_module(manager.context(), str(model.module), name)
    assert again.is_structurally_equivalent(model.module)
    assert str(again) == str(model.module)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_operation_says_which_node_it_came_from(tiny: Tiny, name: str) -> None:
    *ops, _ = forward(tiny(name)[1].module).body.block.ops
    assert all("lamina.src" in op.attributes for op in ops)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_layer_is_at_least_fifteen_operations(tiny: Tiny, name: str) -> None:
    counts: Counter[str] = Counter()
    for op in forward(tiny(name)[1].module).body.block.ops:
        place = re.search(r"/(?:layers|h|encoder/layer)\.(\d+)", str(op.attributes))
        counts.update([place[1]] if place else [])
    assert len(counts) == LAYERS
    assert min(counts.values()) >= 15


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_nothing_is_fused_or_packed(tiny: Tiny, name: str) -> None:
    names = {op.name for op in tiny(name)[1].module.walk()}
    assert names.isdisjoint({"nn.attention", "cache.attention", "quant.linear", "quant.pack"})


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_takes_a_ragged_batch_then_pools_then_weights(tiny: Tiny, name: str) -> None:
    _, model = tiny(name)
    kinds = attributes(forward(model.module).arg_attrs)
    pools = [f"{part}.{layer}" for layer in range(LAYERS) for part in "kv"]
    assert kinds[:6] == [{"lamina.input": role, "cache.role": role} for role in ROLES]
    assert kinds[6:10] == [{"lamina.state": pool} for pool in pools]
    assert {kind["lamina.weight"] for kind in kinds[10:]} <= set(model.weights)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_gives_logits_and_its_pools(tiny: Tiny, name: str) -> None:
    function = forward(tiny(name)[1].module)
    assert attributes(function.res_attrs)[0] == {"lamina.output": "logits"}
    assert str(function.function_type.outputs.data[0]) == 'tensor<?x301xf32, #nn.dims<["R"]>>'
    pools = [f"{part}.{layer}" for layer in range(LAYERS) for part in "kv"]
    assert attributes(function.res_attrs)[1:] == [{"lamina.state": pool} for pool in pools]


def test_an_encoder_takes_what_its_tokenizer_gives(tiny: Tiny) -> None:
    function = forward(tiny("bert")[1].module)
    inputs = [{"lamina.input": n} for n in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [{"lamina.output": n} for n in ("last_hidden_state", "sentence_embedding")]
    assert attributes(function.arg_attrs)[:3] == inputs
    assert attributes(function.res_attrs) == outputs
    assert str(function.function_type.inputs.data[0]) == 'tensor<?x?xi32, #nn.dims<["B", "L"]>>'


def test_a_tied_embedding_is_one_argument(tiny: Tiny) -> None:
    function = forward(tiny("llama")[1].module)
    kinds = attributes(function.arg_attrs)
    place = kinds.index({"lamina.weight": "model.embed_tokens.weight"})
    uses = [use.operation.name for use in function.body.block.args[place].uses]
    assert sorted(uses) == ["nn.dot_general", "nn.embedding"]


def test_quantised_rows_are_dequantised_where_they_are_used(tiny: Tiny) -> None:
    names = Counter(op.name for op in tiny("gguf-q4_1")[1].module.walk())
    # Rows of `ffn_down` hold no whole blocks, so that it is stored as f16 and cast.
    assert names["quant.dequantize"] == 6 * LAYERS + 1
    assert names["nn.cast"] == LAYERS + 1


def test_pairs_turn_as_the_file_stores_them(tiny: Tiny) -> None:
    def spellings(name: str) -> set[bool]:
        ropes = [op for op in tiny(name)[1].module.walk() if op.name == "nn.rope"]
        return {"interleaved" in op.properties for op in ropes}

    assert spellings("llama") == {False}
    assert spellings("gguf-f32") == {True}


def saved(path: Path, change: Callable[[checkpoints.Arrays], object]) -> Path:
    arrays = checkpoints.llama(checkpoints.LLAMA)
    change(arrays)
    return checkpoints.save_folder(path, checkpoints.LLAMA, arrays)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path, lambda arrays: arrays.pop("model.norm.weight"))
    with pytest.raises(FormatError, match=r"model\.safetensors: tensor 'model.norm.weight' is mis"):
        lamina.read(folder)


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    wrong = {"model.layers.1.mlp.up_proj.weight": np.zeros((2, HIDDEN), np.float32)}
    folder = saved(tmp_path, lambda arrays: arrays.update(wrong))
    message = r"1\.mlp\.up_proj\.weight': expected shape \(200, 96\), got \(2, 96\)"
    with pytest.raises(FormatError, match=message):
        lamina.read(folder)


def test_a_tensor_of_floats_of_8_bits_is_refused(tmp_path: Path) -> None:
    wrong = {"model.norm.weight": np.zeros(HIDDEN, ml_dtypes.float8_e5m2)}
    folder = saved(tmp_path, lambda arrays: arrays.update(wrong))
    with pytest.raises(UnsupportedError, match=r"'model.norm.weight': type f8_e5m2 .* f32, f16"):
        lamina.read(folder)


def test_an_unknown_tensor_is_warned_of(tmp_path: Path) -> None:
    extra = {"model.layers.0.mlp.up_proj.bias": np.zeros(200, np.float32)}
    folder = saved(tmp_path, lambda arrays: arrays.update(extra))
    with pytest.warns(UserWarning, match=r"not used: 'model.layers.0.mlp.up_proj.bias'$"):
        lamina.read(folder)


def test_known_buffers_are_left_aside(tmp_path: Path) -> None:
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(16, np.float32)}
    assert lamina.read(saved(tmp_path, lambda arrays: arrays.update(extra))).module


def test_pickled_weights_are_refused_by_name(tmp_path: Path) -> None:
    folder = saved(tmp_path, lambda arrays: None)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UnsupportedError, match=r"pytorch_model\.bin: pickled weights"):
        lamina.read(folder)


def test_columns_are_not_taken_out_of_blocks(tmp_path: Path) -> None:
    model = lamina.read(checkpoints.of_gguf("q8_0").write(tmp_path))
    graph, shape = Graph(model.weights), (VOCAB, HIDDEN)
    with pytest.raises(UnsupportedError, match=r"'token_embd\.weight': columns cannot be taken"):
        graph.part("token_embd.weight", shape, 0, 32, axis=1)
