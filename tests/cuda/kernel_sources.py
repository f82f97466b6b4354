"""Kernels as the CUDA target makes them, by where they come from."""

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lamina import compiler
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.plugins import manager
from lamina.targets.cuda.compiled_kernels import STATIC_SHARED
from lamina.targets.cuda.nvvm import KernelCode, emit_kernel
from lamina.targets.cuda.pipeline import SUBGROUP, THREADS
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.target import CudaTarget
from lamina.targets.plans.emission import emit_each
from lamina.testing import cases
from lamina.testing.kernels import ZOO, context

UNITS = ("bf16", "f16", "i8")
"""The element types that matrix units multiply."""

SUMS = {"bf16": "f32", "f16": "f32", "f32": "f32", "i8": "i32"}
"""The element types of products, and those of their sums."""


def threaded(text: str) -> ModuleOp:
    """Kernels of tiles as the work of threads."""
    ctx = context()
    module = Parser(ctx, text).parse_module()
    layouts = ChooseLayoutsPass(THREADS, fragments=True)
    threads = LowerTilesPass(THREADS, SUBGROUP, STATIC_SHARED, narrow=True)
    for each in (DecomposeMathPass(), layouts, threads):
        each.apply(ctx, module)
    return module


def tile_product(kind: str) -> ModuleOp:
    """A kernel that multiplies a tile of rows by one of columns."""
    x, y = f"64x32x{kind}", f"64x64x{SUMS[kind]}"
    zero = "0" if kind == "i8" else "0.0"
    ends = "{shape = array<i64: 64, %s>, in_bounds = array<i64: 0, 1>%s}"
    return threaded(f"""
tile.kernel @product_{kind} attributes {{symbols = ["workers"], grid = ["1"], access = ["read", "read", "write"]}} {{
^bb0(%x: memref<{x}>, %w: memref<{x}>, %y: memref<{y}>, %workers: index):
  %zero = arith.constant 0 : index
  %none = arith.constant dense<{zero}> : vector<{y}>
  %a = tile.load %x[%zero, %zero] {ends % (32, "")} : memref<{x}>[index, index] -> vector<{x}>
  %b = tile.load %w[%zero, %zero] {ends % (32, "")} : memref<{x}>[index, index] -> vector<{x}>
  %d = tile.dot %a, %b, %none {{contract = [[1 : i64, 1 : i64]]}} : (vector<{x}>, vector<{x}>, vector<{y}>) -> vector<{y}>
  tile.store %d, %y[%zero, %zero] {ends % (64, ", unique")} : vector<{y}>, memref<{y}>[index, index]
  tile.return
}}""")


def product(kind: str, size: int, arch: str = "sm_80") -> ModuleOp:
    """A square product of the level at which front ends write, for an architecture."""
    return ragged_product(kind, (size, size, size), arch)


def ragged_product(
    kind: str,
    sizes: tuple[int, int, int],
    arch: str = "sm_80",
    *,
    turned: bool = False,
    end: str = "",
    **more: bool,
) -> ModuleOp:
    """A product of m rows, depth k and n columns, then `end`; `turned`, columns of w lie side by side.

    `end` is an operation on elements, or `add` for the sum with another input.
    """
    m, k, n = sizes
    x, y = f"tensor<{m}x{k}x{kind}>", f"tensor<{m}x{n}x{SUMS[kind]}>"
    w = f"tensor<{n}x{k}x{kind}>" if turned else f"tensor<{k}x{n}x{kind}>"
    last = {"": "", "add": f"%z = nn.add %y, %r : {y}"}.get(end, f"%z = nn.{end} %y : {y}")
    text = f"""func.func @forward(%x: {x} {{lamina.input = "x"}}, %w: {w} {{lamina.input = "w"}},
        %r: {y} {{lamina.input = "r"}}) -> ({y} {{lamina.output = "y"}}) {{
      %y = nn.dot_general %x, %w {{contract = [[1, {int(turned)}]], lamina.src = ["/y"]}} : ({x}, {w}) -> {y}
      {last}
      func.return {"%z" if end else "%y"} : {y}
    }}"""
    return compiler.lower(Parser(manager.context(), text).parse_module(), CudaTarget(arch, **more))


def model(name: str) -> ModuleOp:
    """A tiny model of the conformance kit."""
    (case,) = (case for case in cases("models") if case.name == name)
    return compiler.lower(case.sheet().module, CudaTarget())


def codes_of(*modules: ModuleOp) -> list[KernelCode]:
    """What is printed of the kernels of planned modules."""
    nodes = NodeTable()
    return [
        code for m in modules for code in emit_each(m, lambda kernel: emit_kernel(kernel, nodes))
    ]


@cache
def kernels_of(source: str) -> Sequence[KernelCode]:
    """The kernels of the zoo, of products of single tiles, or of a model of the kit."""
    if source == "zoo":
        paths = sorted({case.path for case in ZOO})
        return codes_of(*(threaded(path.read_text()) for path in paths))
    if source == "products":
        return codes_of(*map(tile_product, UNITS))
    return codes_of(model(source))
