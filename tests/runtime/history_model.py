"""A decoder that remembers: logits are random numbers drawn from all tokens of a sequence so far.

It keeps tokens in the page pool as a language model keeps keys, and reads them back through the
table, so a page, position or row that is not the sequence's own changes every number.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import tokenizers
from tokenizers import AddedToken
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from lamina.dialects.dims import Dim
from lamina.frontend.model import Model, ModelConfig, Weights
from lamina.frontend.tokenizer import Tokenizer
from lamina.targets.base import Artifact, Binding, Executable, Signature, Target, bind

PAGE, BLOCK = 16, 4

END, STOP = "<end>", "<stop>"
"""Control tokens that end a sequence."""


def binding(name: str, dtype: str, *dims: str, role: str = "") -> Binding:
    return Binding(name, dtype, tuple(map(Dim.of, dims)), role)


INPUTS = (
    binding("rows_wanted", "i32", "R", role="rows"),
    binding("tokens", "i32", "T", role="tokens"),
    binding("positions", "i32", "T", role="positions"),
    binding("query_start", "i32", "S + 1", role="query_start"),
    binding("work", "i32", "W", "2", role="work"),
    binding("table", "i32", "S", "B", role="table"),
)
POOL = binding("history", "i32", "pages", "1", str(PAGE), "1")


class HistoryModel:
    """`say` (history -> token) makes one token by far the likeliest; `before` sees each batch."""

    def __init__(self, vocabulary: int) -> None:
        logits = binding("logits", "f32", "R", str(vocabulary))
        self.signature = Signature(INPUTS, (logits,), (POOL,), {"block": BLOCK})
        self.inputs, self.outputs = self.signature.inputs, self.signature.outputs
        self.vocabulary = vocabulary
        self.say: Callable[[list[int]], int] | None = None
        self.before: Callable[[Mapping[str, np.ndarray]], object] = lambda inputs: None
        self.steps: list[int] = []

    def __call__(self, *args: np.ndarray, **kwargs: np.ndarray) -> dict[str, np.ndarray]:
        arrays = kwargs | dict(zip((each.name for each in INPUTS), args, strict=False))
        bind((*INPUTS, POOL), arrays)
        assert all(array.flags.c_contiguous for array in arrays.values())
        assert all(array.ctypes.data % 64 == 0 for array in arrays.values())
        self.before(arrays)
        self.steps.append(len(arrays["tokens"]))
        places = self._places(arrays)
        for (row, position), token in zip(places, arrays["tokens"], strict=True):
            self._page(arrays, row, position)[position % PAGE] = token + 1
        found = [self._logits(arrays, *places[token]) for token in arrays["rows_wanted"]]
        return {"logits": np.array(found, np.float32).reshape(-1, self.vocabulary)}

    def _places(self, arrays: Mapping[str, np.ndarray]) -> list[tuple[int, int]]:
        starts, places = arrays["query_start"], dict[int, tuple[int, int]]()
        for row, block in arrays["work"]:
            first = starts[row] + block * BLOCK
            for token in range(first, min(first + BLOCK, starts[row + 1])):
                assert token not in places, "a token is in two work entries"
                places[token] = (row, int(arrays["positions"][token]))
        assert len(places) == len(arrays["tokens"]), "a token is in no work entry"
        return [places[token] for token in range(len(places))]

    def _page(self, arrays: Mapping[str, np.ndarray], row: int, position: int) -> np.ndarray:
        return arrays["history"][arrays["table"][row, position // PAGE], 0, :, 0]

    def _logits(self, arrays: Mapping[str, np.ndarray], row: int, last: int) -> np.ndarray:
        pages = range(0, last + 1, PAGE)
        history = np.concatenate([self._page(arrays, row, each) for each in pages])[: last + 1]
        seed = zlib.crc32(history.tobytes())
        logits = np.random.default_rng(seed).normal(0, 3, self.vocabulary)
        if self.say is not None:
            logits[self.say([int(token) - 1 for token in history])] = 1000
        return logits


@dataclass(frozen=True)
class HistoryTarget(Target):
    """Whatever the module, load the given model."""

    name: ClassVar[str] = "history"
    model: HistoryModel = field(default_factory=lambda: HistoryModel(64))

    @property
    def accepts(self) -> frozenset[str]:
        return frozenset({"builtin.module"})

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        return Artifact(self.name, self.model.signature, {}, {})

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        return self.model


def byte_tokenizer() -> Tokenizer:
    """A token a byte, 0 to 255 in the order of their values, then two that end a sequence."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={mark: n for n, mark in enumerate(alphabet)}, merges=[])
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(END, special=True), AddedToken(STOP, special=True)])
    return Tokenizer(backend, eos_ids=[backend.token_to_id(END)])


def as_read(tokenizer: Tokenizer | None, context: int = 512, eos: Sequence[int] = ()) -> Model:
    """A model as the front end would have read it, without a graph."""
    config = ModelConfig(
        architecture="history",
        vocab_size=0,
        context_length=context,
        hidden_size=1,
        intermediate_size=1,
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=1,
        norm_eps=1.0,
        activation="silu",
        eos_ids=tuple(eos),
    )
    return Model(ModuleOp([]), Weights(()), tokenizer, config)
