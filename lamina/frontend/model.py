"""What a model file says: a portable module, its weights, its tokenizer and its settings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lamina.dialects.block_types import BLOCK_TYPES, BlockType
from lamina.errors import FormatError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.pooling import Pooling
from lamina.frontend.rope import Rope

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from lamina.frontend.tokenizer import Tokenizer

PLAIN_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "f64": "<f8",
        "f32": "<f4",
        "f16": "<f2",
        "bf16": ml_dtypes.bfloat16,
        "f8_e4m3": ml_dtypes.float8_e4m3fn,
        "f8_e5m2": ml_dtypes.float8_e5m2,
        "i64": "<i8",
        "i32": "<i4",
        "i16": "<i2",
        "i8": "i1",
        "u64": "<u8",
        "u32": "<u4",
        "u16": "<u2",
        "u8": "u1",
        "bool": "?",
    }.items()
}
"""The dtypes of weights that are not stored in blocks, and their NumPy forms."""

MOST_READ = 1024
"""The elements of the largest weight whose values a converter may look at."""

_PLAIN_NAMES = {dtype: name for name, dtype in PLAIN_DTYPES.items()}


@dataclass(frozen=True, eq=False, slots=True)
class Weight:
    """A named tensor of a model file, as it is stored.

    `dtype` is a key of `PLAIN_DTYPES` or the name of a quantised `BlockType`. `shape` counts
    elements, in NumPy's order. `array` is read-only: of that dtype and shape for a plain dtype,
    uint8 `[*shape[:-1], bytes of a row]` for a block type.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    array: npt.NDArray[Any] = field(repr=False)
    source: MappedFile | None = field(default=None, repr=False)
    offset: int = field(default=0, repr=False)

    @classmethod
    def of(cls, name: str, array: npt.NDArray[Any]) -> "Weight":
        """Return a weight that lives in memory, its dtype (a plain one) taken from `array`."""
        array = array.view()
        array.flags.writeable = False
        return cls(name, _PLAIN_NAMES[array.dtype], array.shape, array)

    @property
    def block(self) -> BlockType | None:
        """The geometry of the stored blocks, or None for a plain dtype."""
        return None if self.dtype in PLAIN_DTYPES else BLOCK_TYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        """The bytes that the tensor takes in its file."""
        return self.array.nbytes

    def release(self) -> None:
        """Let the system drop what is resident of the file; a later read brings it back."""
        if self.source is not None:
            self.source.release()


class Weights(Mapping[str, Weight]):
    """The weights of a model by name, in the order of the file."""

    where: str

    def __init__(self, weights: Iterable[Weight], where: object = "weights") -> None:
        """Take `weights`; `where` names their file in errors. `FormatError` if a name repeats."""
        self.where = str(where)
        self._weights: dict[str, Weight] = {}
        for weight in weights:
            if weight.name in self._weights:
                raise FormatError(f"{where}: tensor {weight.name!r} appears twice")
            self._weights[weight.name] = weight

    def __getitem__(self, name: str) -> Weight:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    @property
    def nbytes(self) -> int:
        """The bytes that all tensors take in their files."""
        return sum(weight.nbytes for weight in self._weights.values())

    def verify_unchanged(self) -> None:
        """Raise `FormatError` if a file that holds some of them was written or cut meanwhile."""
        for source in {id(w.source): w.source for w in self._weights.values()}.values():
            if source is not None:
                source.verify_unchanged()

    def expect(self, name: str, shape: tuple[int, ...]) -> Weight:
        """Return the weight `name` of `shape`, or raise a `FormatError` naming file and tensor."""
        weight = self._weights.get(name)
        if weight is None:
            raise FormatError(f"{self.where}: tensor {name!r} is missing, expected {shape}")
        if weight.shape != shape:
            raise FormatError(
                f"{self.where}: tensor {name!r}: expected shape {shape}, got {weight.shape}"
            )
        return weight


@dataclass(frozen=True)
class ModelConfig:
    """The settings of a transformer, the same whichever file they came from.

    `layers`, `heads` and the rest count; `context_length` is the longest sequence in tokens,
    scaling included. `activation` is "silu", "gelu" (erf), "gelu_tanh" or "relu". `rope` is None
    where positions are a learned table. `attention_bias` and `mlp_bias` tell of biases on all
    linears of that part. `token_types` counts BERT's segment embeddings. Any of `eos_ids` ends a
    sequence. `metadata` is everything the file said, under its own names.
    """

    architecture: str
    vocab_size: int
    context_length: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    activation: str
    rope: Rope | None = None
    tied_embeddings: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    token_types: int = 0
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    pooling: Pooling | None = None
    metadata: Mapping[str, object] = field(
        default_factory=dict[str, object], repr=False, compare=False
    )


def _digest(weight: Weight) -> str:
    if weight.array.size > MOST_READ:
        return ""
    digest = sha256(weight.array.tobytes()).hexdigest()
    weight.release()
    return digest


@dataclass(frozen=True)
class Model:
    """A model as read: the plain graph, and beside it what the graph takes as arguments.

    `graph` is the module, or makes it when it is first asked for. `tokenizer` and `config` are
    None where the file has none; `source` and `format` say where the model was read from, if from
    anywhere. `stamp` tells the file's graph from every other, where its header does not; `facts`
    are what the file says besides, for people to read.
    """

    graph: "ModuleOp | Callable[[], ModuleOp]"
    weights: Weights
    tokenizer: "Tokenizer | None" = None
    config: ModelConfig | None = None
    source: Path | None = None
    format: str = ""
    stamp: bytes = field(default=b"", repr=False)
    facts: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)

    @cached_property
    def module(self) -> "ModuleOp":
        """The plain graph; `FormatError` or `UnsupportedError` if the file does not give one."""
        return self.graph() if callable(self.graph) else self.graph

    @property
    def header(self) -> bytes | None:
        """All that the graph is made from; None for a graph that was not made from a file.

        Besides settings, names, dtypes and shapes these are the values of weights of up to
        `MOST_READ` elements: no other values may shape a graph.
        """
        if not callable(self.graph):
            return None
        metadata = list(self.config.metadata) if self.config else []
        stored = [(w.name, w.dtype, w.shape, _digest(w)) for w in self.weights.values()]
        return repr((self.format, self.config, sorted(metadata), stored, self.stamp)).encode()
