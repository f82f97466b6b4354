"""Modules with a group of 64-bit floats between two of 32 bits, and what they compute."""

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lamina.plugins import manager

TEXT = """
!f = tensor<?x64xf32, #nn.dims<["T"]>>
!d = tensor<?x64xf64, #nn.dims<["T"]>>
func.func @forward(%x: !f {lamina.input = "x"}) -> (!f {lamina.output = "y"}) {
  %a = nn.abs %x {lamina.src = ["/abs"]} : !f
  %b = nn.cast %a {lamina.src = ["/widen"]} : (!f) -> !d
  %c = nn.mul %b, %b {lamina.src = ["/square"]} : !d
  %d = nn.cast %c {lamina.src = ["/narrow"]} : (!d) -> !f
  %e = nn.add %d, %d {lamina.src = ["/twice"]} : !f
  func.return %e : !f
}
"""


WEIGHTED = """
!f = tensor<?x64xf32, #nn.dims<["T"]>>
!d = tensor<?x64xf64, #nn.dims<["T"]>>
!w = tensor<1x64xf64>
func.func @forward(%x: !f {lamina.input = "x"}, %w: !w {lamina.weight = "w"})
    -> (!f {lamina.output = "y"}) {
  %a = nn.abs %x {lamina.src = ["/abs"]} : !f
  %b = nn.cast %a {lamina.src = ["/widen"]} : (!f) -> !d
  %s = nn.broadcast %w {dims = array<i64: 0, 1>} : (!w) -> !d
  %c = nn.mul %b, %s {lamina.src = ["/scale"]} : !d
  %d = nn.cast %c {lamina.src = ["/narrow"]} : (!d) -> !f
  %e = nn.add %d, %d {lamina.src = ["/twice"]} : !f
  func.return %e : !f
}
"""
WEIGHTS = {"w": np.linspace(-3, 3, 64).reshape(1, 64)}


def placed(text: str = TEXT) -> ModuleOp:
    return Parser(manager.context(), text).parse_module()


def numbers(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, 64)).astype(np.float32)


def right(x: np.ndarray) -> np.ndarray:
    return 2 * np.square(x.astype(np.float64)).astype(np.float32)


def scaled(x: np.ndarray) -> np.ndarray:
    return 2 * (np.abs(x).astype(np.float64) * WEIGHTS["w"]).astype(np.float32)
