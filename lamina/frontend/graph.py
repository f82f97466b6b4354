"""Builds `@forward`: arguments with their roles, operations with the node they came from."""

import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lamina.dialects import nn, quant
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.names import escape_name, hint_of
from lamina.dialects.tensors import extents, tensor, ui8, ui16, ui32, ui64
from lamina.dialects.text_codes import ELEMENTS, TEXT, TEXTS
from lamina.errors import UnsupportedError
from lamina.frontend.model import Weight, Weights
from lamina.frontend.shown import shown

_PLAIN: dict[str, Attribute] = {
    "f64": f64,
    "f32": f32,
    "f16": f16,
    "bf16": bf16,
    "i64": i64,
    "i32": i32,
    "i16": i16,
    "i8": i8,
    "u64": ui64,
    "u32": ui32,
    "u16": ui16,
    "u8": ui8,
    "bool": i1,
}
_ACTIVATIONS: dict[str, Callable[[SSAValue], Operation]] = {
    "silu": nn.SiluOp,
    "gelu": nn.GeluOp,
    "gelu_tanh": lambda x: nn.GeluOp(x, approximate=True),
    "relu": nn.ReluOp,
}
_BLOCKS = ("q4_0", "q4_1", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_0")
_MOST_NAMED = 8


@dataclass
class _Role:
    """The attributes of one kind of arguments or results, in order."""

    attributes: list[DictionaryAttr] = field(default_factory=list[DictionaryAttr])
    values: list[SSAValue] = field(default_factory=list[SSAValue])

    def put(self, value: SSAValue, attributes: Mapping[str, str]) -> None:
        texts = {key: StringAttr(escape_name(text)) for key, text in attributes.items()}
        self.attributes.append(DictionaryAttr(texts))
        self.values.append(value)


class Graph:
    """The function `@forward` of a model, under construction.

    Its arguments come in the order inputs, states, weights, whenever they are asked for; a weight
    becomes one argument the first time it is used. Every operation is marked with the node that
    `at` names.
    """

    def __init__(self, weights: Weights) -> None:
        """Take the weights that arguments may name."""
        self.weights = weights
        self._block = self._current = Block()
        self._inputs, self._states, self._arguments = _Role(), _Role(), _Role()
        self._outputs, self._updated = _Role(), _Role()
        self._used: dict[str, SSAValue] = {}
        self._source = ArrayAttr([StringAttr("/")])
        self._equal: dict[tuple[str, str], str] = {}
        self._guard = Dim.of(1)
        self._texts: dict[str, None] | None = None
        self.fresh_symbols = (f"n{i}" for i in count())
        """Names of symbols for extents that values give."""
        self.dropped: dict[SSAValue, tuple[int, ...]] = {}
        """Dimensions that are to go from an output where they turn out to have one element."""

    @contextmanager
    def at(self, node: str) -> Generator[None]:
        """Mark the operations added meanwhile as coming from `node`, a path such as `/norm`."""
        outer, self._source = self._source, ArrayAttr([StringAttr(escape_name(node))])
        try:
            yield
        finally:
            self._source = outer

    @contextmanager
    def inside(self, block: Block, guard: Dim) -> Generator[None]:
        """Append to `block`, a branch yet to come, and not to the function.

        `guard` is 1 where the branch is taken, else 0.
        """
        outer = self._current, self._guard
        self._current, self._guard = block, self._guard * guard
        try:
            yield
        finally:
            self._current, self._guard = outer

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Take back what was added meanwhile if it ends in an error, which goes on."""
        last, equal = self._current.last_op, dict(self._equal)
        try:
            yield
        except Exception:
            while self._current.last_op is not last:
                op = self._current.last_op
                assert op is not None
                op.detach()
                op.erase(safe_erase=False)
            self._equal = equal
            raise

    def add(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Append `op` and return its first result, named `hint` in the text."""
        op.attributes["lamina.src"] = self._source
        self._current.add_op(op)
        op.results[0].name_hint = hint
        return op.results[0]

    def effect(self, op: Operation) -> None:
        """Append `op`, which has no result."""
        op.attributes["lamina.src"] = self._source
        self._current.add_op(op)

    def input(
        self,
        name: str,
        element: Attribute,
        dims: Sequence[Dim | int | str],
        role: str | None = None,
        *,
        text: bool = False,
    ) -> SSAValue:
        """Declare an input of the call; `role` says what it is in a ragged batch.

        With `text` its elements, of i64, are codes of texts.
        """
        at = len(self._inputs.values)
        value = self._insert(tensor(element, dims), at, name)
        said = {"cache.role": role} if role else {}
        self._inputs.put(value, {"lamina.input": name} | said | self._said(text=text))
        return value

    def _said(self, *, text: bool) -> dict[str, str]:
        """Return the attributes that say of an input or output what its numbers stand for."""
        if text:
            self.take_texts()
        return {ELEMENTS: TEXT} if text else {}

    def take_texts(self, texts: Iterable[str] = ()) -> None:
        """Say that tensors of the function have texts, those of its constants being these."""
        self._texts = (self._texts or {}) | dict.fromkeys(texts)

    def state(self, name: str, type: PagesType) -> SSAValue:
        """Declare a page pool, which must be given back by `update`."""
        at = len(self._inputs.values) + len(self._states.values)
        value = self._insert(type, at, name)
        self._states.put(value, {"lamina.state": name})
        return value

    def output(self, name: str, value: SSAValue, *, text: bool = False) -> None:
        """Return `value` as the output `name`; with `text` its elements are codes of texts."""
        dropped = self.dropped.get(value, ())
        gone = {"nn.dropped": " ".join(map(str, dropped))} if dropped else {}
        self._outputs.put(value, {"lamina.output": name} | gone | self._said(text=text))

    def update(self, name: str, value: SSAValue) -> None:
        """Return `value` as what the state `name` is after the call."""
        self._updated.put(value, {"lamina.state": name})

    def weight(self, name: str, shape: tuple[int, ...]) -> SSAValue:
        """Return the argument for a weight as it is stored, of plain numbers or `quant.blocks`.

        Raises `FormatError` if the file has no such tensor of that shape, `UnsupportedError` if
        its elements are not numbers that a graph can take.
        """
        weight = self.weights.expect(name, shape)
        if name not in self._used:
            value = self._insert(self._stored_type(weight), len(self._block.args), name)
            self._arguments.put(value, {"lamina.weight": name})
            self._used[name] = value
        return self._used[name]

    def parameter(self, name: str, shape: tuple[int, ...]) -> SSAValue:
        """Return a weight as f32 numbers: cast, or dequantised."""
        return self._numbers(self.weight(name, shape))

    def part(
        self, name: str, shape: tuple[int, ...], start: int, count: int, *, axis: int = 0
    ) -> SSAValue:
        """Return a part of a weight as f32 numbers: `count` indices of `axis` from `start` on.

        Raises as `weight`, and `UnsupportedError` for columns of a weight in blocks.
        """
        value = self.weight(name, shape)
        if not isinstance(value.type, quant.BlocksType):
            starts, sizes = [0] * len(shape), list(shape)
            starts[axis], sizes[axis] = start, count
            return self._numbers(self.add(nn.SliceOp(value, starts, sizes)))
        if axis:
            raise UnsupportedError(
                f"{self.weights.where}: tensor {name!r}: columns cannot be taken out of blocks"
            )
        return self._numbers(self.add(quant.RowsOp(value, start, count)))

    def _numbers(self, value: SSAValue) -> SSAValue:
        if isinstance(value.type, quant.BlocksType):
            return self.add(quant.DequantizeOp([value], *value.type.shape), "w")
        if nn.element(value) == f32:
            return value
        return self.add(nn.CastOp(value, f32), "w")

    def linear(
        self, x: SSAValue, w: SSAValue, bias: SSAValue | None = None, *, k: int = 1
    ) -> SSAValue:
        """Return x f32 [T, K] times w f32 [N, K], plus `bias` [N]; `k` is the place of K in w."""
        y = self.add(nn.DotGeneralOp(x, w, [(1, k)]))
        return y if bias is None else self.add_bias(y, bias)

    def add_bias(self, x: SSAValue, bias: SSAValue) -> SSAValue:
        """Return x plus `bias` along the last dimension."""
        return self.add(nn.AddOp(x, self.broadcast(bias, x, [len(extents(x.type)) - 1])))

    def activate(self, name: str, x: SSAValue) -> SSAValue:
        """Return the activation of a configuration, "gelu_tanh" for one, of x."""
        return self.add(_ACTIVATIONS[name](x))

    def broadcast(self, x: SSAValue, like: SSAValue, dims: Sequence[int]) -> SSAValue:
        """Return `x` repeated to the shape of `like`, its dimension i at `dims[i]`."""
        return self.add(nn.BroadcastOp(x, dims, extents(like.type)))

    def fill(self, value: float, like: SSAValue) -> SSAValue:
        """Return a constant of the type of `like`, which is of f32, all its elements equal."""
        return self.add(nn.ConstantOp(FloatAttr(value, f32), like.type))

    def listed(self, values: npt.NDArray[np.float32]) -> SSAValue:
        """Return a constant of these few finite numbers."""
        type: TensorType[Any] = tensor(f32, values.shape)
        dense = DenseIntOrFPElementsAttr.from_list(type, values.ravel().tolist())
        return self.add(nn.ConstantOp(dense, type))

    def assume(self, a: Dim, b: Dim) -> None:
        """Have calls refused in which two extents differ; the refusal names the current node.

        Inside a branch, only those calls that take it.
        """
        node = self._source.data[0].data
        self._equal.setdefault((str(a * self._guard), str(b * self._guard)), node)

    @property
    def is_branch(self) -> bool:
        """Whether what is added may not be run."""
        return self._guard != Dim.of(1)

    @property
    def assumed(self) -> tuple[tuple[Dim, Dim], ...]:
        """The pairs of extents that were assumed to be equal."""
        return tuple((Dim.of(a), Dim.of(b)) for a, b in self._equal)

    def finish(self, ignored: Callable[[str], bool] = lambda name: False) -> ModuleOp:
        """Return the module; warn of tensors that were not used unless they are `ignored`."""
        unused = [n for n in self.weights if n not in self._used and not ignored(n)]
        if unused:
            named = ", ".join(shown(name) for name in unused[:_MOST_NAMED])
            rest = f" and {len(unused) - _MOST_NAMED} more" if unused[_MOST_NAMED:] else ""
            warnings.warn(
                f"{self.weights.where}: tensors that are not used: {named}{rest}", stacklevel=3
            )
        results = [*self._outputs.values, *self._updated.values]
        self._block.add_op(ReturnOp(*results))
        function = FuncOp(
            "forward",
            ([arg.type for arg in self._block.args], [value.type for value in results]),
            Region(self._block),
            arg_attrs=ArrayAttr(
                [
                    *self._inputs.attributes,
                    *self._states.attributes,
                    *self._arguments.attributes,
                ]
            ),
            res_attrs=ArrayAttr([*self._outputs.attributes, *self._updated.attributes]),
        )
        if self._equal:
            rows = [[*pair, node] for pair, node in self._equal.items()]
            texts = [ArrayAttr([StringAttr(text) for text in row]) for row in rows]
            function.attributes["lamina.equal"] = ArrayAttr(texts)
        if self._texts is not None:
            named = [StringAttr(escape_name(text)) for text in self._texts]
            function.attributes[TEXTS] = ArrayAttr(named)
        return ModuleOp([function])

    def _insert(self, type: Attribute, at: int, name: str) -> SSAValue:
        value = self._block.insert_arg(type, at)
        value.name_hint = hint_of(name)
        return value

    def _stored_type(self, weight: Weight) -> Attribute:
        if weight.dtype in _PLAIN:
            return tensor(_PLAIN[weight.dtype], weight.shape)
        if weight.dtype in _BLOCKS and len(weight.shape) == 2:
            return quant.BlocksType.of(weight.dtype, *weight.shape)
        known = ", ".join((*_PLAIN, *_BLOCKS))
        raise UnsupportedError(
            f"{self.weights.where}: tensor {weight.name!r}: type {weight.dtype} of shape "
            f"{weight.shape} is not supported: a graph takes {known} (blocks as matrices only)"
        )
