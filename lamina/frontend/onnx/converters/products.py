"""Operators that sum products: matrices, Einstein sums, convolutions and pools."""

from __future__ import annotations

from string import ascii_letters

from lamina.dialects import nn
from lamina.frontend.onnx.kinds import BY_NAME
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor


@converts("MatMul")
@converts("FusedMatMul", domain=MICROSOFT)
def matmul(node: Node) -> Tensor:
    """Products of matrices, as NumPy has them."""
    a, b = node.x(0), node.x(1)
    if node.op == "FusedMatMul":
        if node.get_int("transBatchA", 0) or node.get_int("transBatchB", 0):
            raise node.refuse("transBatchA or transBatchB")
        a, b = (_turned(node, x, node.get_int(n, 0)) for x, n in ((a, "transA"), (b, "transB")))
    y = matrices(node, a, b)
    alpha = node.get_float("alpha", 1.0) if node.op == "FusedMatMul" else 1.0
    return y if alpha == 1 else node.scaled(nn.MulOp, y, alpha)


def _turned(node: Node, x: Tensor, turn: int) -> Tensor:
    rank = len(x.shape)
    return node.transpose(x, [*range(rank - 2), rank - 1, rank - 2]) if turn and rank > 1 else x


def matrices(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Return a product of stacks of matrices, in the kind of `a`."""
    return node.cast(dot_of_matrices(node, a, b), a.kind)


def dot_of_matrices(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Return sums of products of stacks of matrices, in the kind that sums have."""
    if len(a.shape) == 1:
        y = dot_of_matrices(node, node.reshape(a, [1, *a.shape]), b)
        place = max(len(b.shape) - 2, 0)
        return node.reshape(y, [n for d, n in enumerate(y.shape) if d != place])
    if len(b.shape) == 1:
        y = dot_of_matrices(node, a, node.reshape(b, [*b.shape, 1]))
        return node.reshape(y, y.shape[:-1])
    if len(b.shape) == 2:
        return node.dot(a, b, [(len(a.shape) - 1, 0)])
    stack = node.common_shape([a.shape[:-2], b.shape[:-2]])
    a = node.broadcast_to(a, [*stack, *a.shape[-2:]])
    b = node.broadcast_to(b, [*stack, *b.shape[-2:]])
    rank = len(stack)
    return node.dot(a, b, [(rank + 1, rank)], [(d, d) for d in range(rank)])


@converts("Gemm")
def gemm(node: Node) -> Tensor:
    """Alpha times a product of two matrices plus beta times a third."""
    a, b = node.x(0), node.x(1)
    pairs = [(0 if node.get_int("transA", 0) else 1, 1 if node.get_int("transB", 0) else 0)]
    y = node.cast(node.dot(a, b, pairs), a.kind)
    y = _times(node, y, node.get_float("alpha", 1.0))
    beta = node.get_float("beta", 1.0)
    if not node.has(2) or beta == 0:
        return y
    return node.binary(nn.AddOp, y, _times(node, node.x(2), beta))


def _times(node: Node, x: Tensor, factor: float) -> Tensor:
    """Return x times a number; integers are cut after it."""
    if factor == 1:
        return x
    wide = x if x.kind.is_float else node.cast(x, BY_NAME["double"])
    return node.cast(node.scaled(nn.MulOp, wide, factor), x.kind)


@converts("Einsum")
def einsum(node: Node) -> Tensor:
    """A sum of products over letters that the result has not."""
    equation = node.get_text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms, xs = left.split(","), node.xs()
    if len(terms) != len(xs):
        raise node.fault(f"equation {equation!r} has {len(terms)} terms for {len(xs)} inputs")
    spare = [c for c in ascii_letters if c not in equation]
    ranks = [len(x.shape) - len(t.replace("...", "")) for x, t in zip(xs, terms, strict=True)]
    dots = "".join(spare[: max(ranks)])
    terms = [t.replace("...", dots[len(dots) - r :]) for t, r in zip(terms, ranks, strict=True)]
    if not arrow:
        once = sorted(c for c in set("".join(terms)) - set(dots) if "".join(terms).count(c) == 1)
        right = dots + "".join(once)
    right = right.replace("...", dots)
    x, have = _diagonals(node, xs[0], terms[0])
    for i in range(1, len(xs)):
        y, other = _diagonals(node, xs[i], terms[i])
        kept = {*right, *"".join(terms[i + 1 :])}
        x, have = _contracted(node, x, have, y, other, kept)
    gone = [d for d, c in enumerate(have) if c not in right]
    x = node.reduce("add", x, gone)
    have = "".join(c for c in have if c in right)
    return node.transpose(x, [have.index(c) for c in right])


def _diagonals(node: Node, x: Tensor, term: str) -> tuple[Tensor, str]:
    """Return a tensor in which each letter is one dimension."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            rows, columns = node.iota(first, x.shape), node.iota(second, x.shape)
            x = node.select(node.compare("eq", rows, columns), x, node.like(0, x))
            x = node.reduce("add", x, [second])
            term = term[:second] + term[second + 1 :]
    return x, term


def _contracted(
    node: Node, a: Tensor, left: str, b: Tensor, right: str, kept: set[str]
) -> tuple[Tensor, str]:
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in kept]
    summed = [c for c in shared if c not in kept]
    sizes = {
        c: node.common_shape([(a.shape[left.index(c)],), (b.shape[right.index(c)],)])[0]
        for c in shared
    }
    a = node.broadcast_to(a, [sizes.get(c, n) for c, n in zip(left, a.shape, strict=True)])
    b = node.broadcast_to(b, [sizes.get(c, n) for c, n in zip(right, b.shape, strict=True)])
    order = [*batch, *(c for c in left if c not in shared), *(c for c in right if c not in shared)]
    y = node.dot(
        a,
        b,
        [(left.index(c), right.index(c)) for c in summed],
        [(left.index(c), right.index(c)) for c in batch],
    )
    return node.cast(y, a.kind), "".join(order)
