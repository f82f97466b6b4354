"""What is printed in Metal's language is of its types and address spaces; the rest is refused."""

from pathlib import Path

import pytest
from checkpoints import CHECKPOINTS
from operation_text import EVERY, RUNS, arithmetic, conversions, exchanges, runs
from simt_text import kernel
from zoo_texts import CASES, lowered

import lamina
from lamina.compiler import lower
from lamina.dialects.simt import KernelOp
from lamina.errors import LoweringError
from lamina.plugins import manager
from lamina.targets.metal.emission import kernels_of
from lamina.targets.metal.msl import KernelText, emit_kernel, library_text
from lamina.targets.metal.target import MetalTarget
from lamina.targets.shading.printer import NodeTable

pytest.importorskip("clang", reason="Metal text is checked by the package libclang")


def printed(program: KernelOp) -> KernelText:
    return emit_kernel(program, NodeTable())


def wrong(kernels: list[KernelText]) -> list[str]:
    from lamina.testing.msl import check

    return [str(each) for each in check(library_text(kernels))]


def test_every_operation_is_well_typed():
    made = [make(kind) for make in (arithmetic, conversions, exchanges) for kind in EVERY]
    made += [runs(*each) for each in RUNS]
    assert wrong([printed(each) for each in made]) == []


@pytest.mark.gpu
def test_the_zoo_is_well_typed():
    made = [lowered(name) for name, case in CASES.items() if not case.error]
    assert wrong([printed(each) for each in made]) == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gguf-q4_1", "bert"])
def test_the_kernels_of_a_model_are_well_typed(name: str, tmp_path: Path) -> None:
    model, target = lamina.read(CHECKPOINTS[name]().write(tmp_path)), MetalTarget()
    assert wrong(kernels_of(target.emit(manager.context(), lower(model.module, target)))) == []


LARGE = """
  %m = simt.memory : memref<9000xf32, "workgroup">
  %v = simt.load %x[%t] : memref<?xf32>, index -> f32"""
DOUBLE = "%v = simt.load %x[%t] : memref<?xf64>, index -> f64"
FAR = "%v = arith.constant 3000000000 : index"
MANY = ", ".join(f"%x{n}: memref<4xf32>" for n in range(32))


@pytest.mark.parametrize(
    ("body", "args", "said"),
    [
        (DOUBLE, "%x: memref<?xf64>", "metal has no 64-bit floats of kernel @k"),
        (LARGE, "%x: memref<?xf32>", "metal has 32768 bytes .* not the 36000 of kernel @k"),
        (
            FAR,
            "%x: memref<?xf32>",
            "an index in 32 bits, which 3000000000 does not fit, in arith.constant of",
        ),
        ("", MANY, "metal gives a kernel at most 31 buffers, not the 33 of kernel @k"),
    ],
    ids=["f64", "shared", "index", "buffers"],
)
def test_what_metal_does_not_have_is_refused(body, args, said):
    access = ", ".join(['"read"'] * args.count("memref"))
    with pytest.raises(LoweringError, match=said):
        printed(kernel(body, args, access))
