"""`pebble`: a decoder without positions, whose layers are attention and a threshold."""

from recipe import Tree, follow


def write_graph(tree: Tree) -> None:
    tree.write(
        "lamina/frontend/pebble.py",
        '''"""The architecture pebble: layers of attention without positions, each cut off at zero."""

from xdsl.dialects.builtin import ModuleOp

from lamina.dialects import nn
from lamina.frontend.decoder import Decoder
from lamina.frontend.graph import Graph
from lamina.frontend.model import ModelConfig, Weights


def build(config: ModelConfig, weights: Weights) -> ModuleOp:
    """Return the plain graph of a pebble over a ragged batch: logits f32 [R, vocab]."""
    graph, width = Graph(weights), config.hidden_size
    decoder = Decoder.begin(graph, config)
    with graph.at("/embed"):
        table = graph.weight("embed.weight", (config.vocab_size, width))
        x = graph.add(nn.EmbeddingOp(table, decoder.tokens, width), "x")
    for layer in range(config.layers):
        with graph.at(f"/layers.{layer}"):
            w = [graph.parameter(f"layers.{layer}.{part}.weight", (width, width)) for part in "qkv"]
            q, k, v = (decoder.heads(graph.linear(x, each), config.heads) for each in w)
            y = graph.activate(config.activation, decoder.attention(layer, q, k, v))
            x = graph.add(nn.AddOp(x, y), "x")
    with graph.at("/head"):
        w = graph.parameter("embed.weight", (config.vocab_size, width))
        graph.output("logits", graph.linear(decoder.wanted(x), w))
    return graph.finish()
''',
    )


def register(tree: Tree) -> None:
    tree.insert(
        "lamina/plugins/builtin.py",
        '    "llama": "lamina.frontend.llama:build",\n',
        '    "pebble": "lamina.frontend.pebble:build",\n',
    )


def read_settings(tree: Tree) -> None:
    settings = "lamina/frontend/config_json.py"
    tree.insert(
        settings,
        "def gpt2_config(config: Fields)",
        '''def pebble_config(config: Fields) -> ModelConfig:
    """Return the settings of `model_type` pebble: no positions, one threshold a layer."""
    require_settings(config, {"position_embedding_type": ("none",)})
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    return ModelConfig(
        architecture="pebble",
        vocab_size=config.count("vocab_size"),
        context_length=config.count("max_position_embeddings"),
        hidden_size=hidden,
        intermediate_size=hidden,
        layers=config.count("num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim(config, "head_dim", hidden, heads),
        norm_eps=0.0,
        activation=_activation(config, "hidden_act", "relu"),
    )


''',
        before=True,
    )
    tree.insert(
        "lamina/frontend/settings.py",
        '    "llama": SettingsReader(\n',
        '    "pebble": SettingsReader(config_json.pebble_config, ("PebbleForCausalLM",)),\n',
        before=True,
    )


def check_settings(tree: Tree) -> None:
    tree.insert(
        "tests/frontend/test_config.py",
        "def test_a_llama_folder_gives_its_settings(",
        """PEBBLE = {
    **{"model_type": "pebble", "vocab_size": 301, "hidden_size": 96, "num_hidden_layers": 2},
    **{"num_attention_heads": 3, "max_position_embeddings": 64},
}


def test_a_pebble_folder_gives_its_settings(folder: Read) -> None:
    found = folder(PEBBLE)
    assert (found.architecture, found.activation, found.head_dim) == ("pebble", "relu", 32)


def test_a_pebble_that_knows_positions_is_refused(folder: Read) -> None:
    values = PEBBLE | {"position_embedding_type": "absolute"}
    refused(folder, values, UnsupportedError, "position_embedding_type")


""",
        before=True,
    )
    shown = tree.run("python -m pytest tests/frontend/test_config.py -k pebble")
    assert "2 passed" in shown


def compare_logits(tree: Tree) -> None:
    tree.write(
        "tests/models/numpy_pebble.py",
        '''"""A pebble in float64 NumPy, of one sequence."""

import numpy as np


def logits(weights, settings, tokens):
    """The logits after each token: [n, vocab]."""
    w = {name.removesuffix(".weight"): array.astype(np.float64) for name, array in weights.items()}
    n, heads = len(tokens), settings["num_attention_heads"]
    x = w["embed"][list(tokens)]
    for layer in range(settings["num_hidden_layers"]):
        q, k, v = (
            (x @ w[f"layers.{layer}.{part}"].T).reshape(n, heads, -1).swapaxes(0, 1)
            for part in "qkv"
        )
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        power = np.exp(scores - scores.max(-1, keepdims=True)) * np.tri(n)
        y = (power / power.sum(-1, keepdims=True)) @ v
        x = x + np.maximum(y.swapaxes(0, 1).reshape(n, -1), 0.0)
    return x @ w["embed"].T
''',
    )
    checkpoints = "tests/models/checkpoints.py"
    tree.insert(
        checkpoints,
        "CHECKPOINTS: dict[str, Callable[[], Checkpoint]] = {\n",
        """PEBBLE: dict[str, Any] = {
    "model_type": "pebble",
    "architectures": ["PebbleForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 512,
}


def of_pebble() -> Checkpoint:
    random = Random(5)
    random.matrix("embed.weight", VOCAB, HIDDEN)
    for layer in range(LAYERS):
        for part in "qkv":
            random.matrix(f"layers.{layer}.{part}.weight", HIDDEN, HIDDEN)
    arrays = random.arrays
    return Checkpoint("pebble", PEBBLE, lambda to: save_folder(to, PEBBLE, arrays), arrays)


""",
        before=True,
    )
    tree.insert(checkpoints, '    "bert": of_bert,\n', '    "pebble": of_pebble,\n')
    tests = "tests/models/test_logits.py"
    tree.insert(tests, "import numpy_llama\n", "import numpy_pebble\n")
    tree.insert(tests, '"gpt2": numpy_gpt2.logits', ', "pebble": numpy_pebble.logits')
    shown = tree.run("python -m pytest tests/models -k pebble")
    assert " passed" in shown
    assert "failed" not in shown


def run_it(tree: Tree) -> None:
    script = tree.root / "compare.py"
    script.write_text(
        """import sys
from pathlib import Path

import numpy as np

sys.path[:0] = ["tests/models", "tests/frontend"]
import checkpoints
import numpy_pebble

import lamina

made = checkpoints.of_pebble()
(folder := Path("stone")).mkdir()
tokens = np.random.default_rng(0).integers(0, checkpoints.VOCAB, 40).tolist()
found = lamina.LLM(made.write(folder)).logits(tokens)
exact = numpy_pebble.logits(made.arrays, made.settings, tokens)
np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)
"""
    )
    tree.see("python", "compare.py")
    assert "pebble" in tree.run("lamina inspect stone")
    assert "logits" in tree.run("lamina run stone --random")


def test_an_architecture_is_added_by_the_recipe(tree: Tree) -> None:
    steps = (write_graph, register, read_settings, check_settings, compare_logits, run_it)
    follow("an architecture", tree, dict(enumerate(steps, 1)))
