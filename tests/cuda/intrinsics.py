"""A use of each intrinsic in every type that kernels have it in, compiled for architectures.

    python tests/cuda/intrinsics.py ARCH...

prints each architecture before its turn, and `all` after the last one.
"""

import re
import sys
from collections.abc import Iterator, Sequence

from lamina.targets.cuda.nvvm import TRIPLE
from lamina.targets.cuda.ptx import to_ptx

FLOATS = {"f32": "float", "f64": "double"}
INTEGERS = {f"i{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
LANES = (0, 1, 2, 3)
"""Of vectors; 0 is a scalar."""

FLOAT_OPERANDS = {
    **dict.fromkeys(("ceil", "fabs", "floor", "roundeven", "sqrt", "trunc"), 1),
    **dict.fromkeys(("copysign", "maximum", "minimum"), 2),
    "fma": 3,
}
SHARED, GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"
MATRIX = "i32, i32, i32, i32, i32, i32"
HALVES = ", ".join(["<2 x half>"] * 6)
FOUR_FLOATS = "float, float, float, float"
COPY = f"({SHARED}, {GLOBAL}, i32)"

OTHERS = (
    "void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",
    *(f"i32 @llvm.nvvm.read.ptx.sreg.{r}.{d}()" for r in ("ctaid", "tid") for d in "xyz"),
    "i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)",
    f"{{ {FOUR_FLOATS} }} @llvm.nvvm.mma.m16n8k16.row.col.bf16({MATRIX}, {FOUR_FLOATS})",
    f"{{ {FOUR_FLOATS} }} @llvm.nvvm.mma.m16n8k16.row.col.f32.f32({HALVES}, {FOUR_FLOATS})",
    "i32 @llvm.nvvm.f2tf32.rna(float)",
    f"{{ {FOUR_FLOATS} }} @llvm.nvvm.mma.m16n8k8.row.col.tf32({MATRIX}, {FOUR_FLOATS})",
    f"{{ i32, i32, i32, i32 }} @llvm.nvvm.mma.m16n8k32.row.col.s8({MATRIX}, i32, i32, i32, i32)",
    *(
        f"{{ {', '.join(['i32'] * n)} }} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{n}.{way}b16.p3"
        f"({SHARED})"
        for n in (2, 4)
        for way in ("", "trans.")
    ),
    *(f"void @llvm.nvvm.cp.async.ca.shared.global.{size}.s{COPY}" for size in (4, 8, 16)),
    f"void @llvm.nvvm.cp.async.cg.shared.global.16.s{COPY}",
    "void @llvm.nvvm.cp.async.commit.group()",
    "void @llvm.nvvm.cp.async.wait.group(i32 1)",
    *(f"i32 @llvm.nvvm.redux.sync.{kind}(i32, i32)" for kind in ("add", "and", "max", "min", "or")),
    *(f"i1 @llvm.nvvm.vote.{way}.sync(i32, i1)" for way in ("all", "any")),
)
"""Result, name and operands; an operand with a value has to be a constant."""

CALL = re.compile(r"(.*?) (@[\w.]+)\((.*)\)")


def typed(name: str, type: str, lanes: int) -> tuple[str, str]:
    """Return the suffix and the type of a vector, or of a scalar."""
    return (f"v{lanes}{name}", f"<{lanes} x {type}>") if lanes else (name, type)


def arithmetic() -> Iterator[str]:
    for lanes in LANES:
        floats = [typed(name, type, lanes) for name, type in FLOATS.items()]
        integers = [typed(name, type, lanes) for name, type in INTEGERS.items()]
        for suffix, type in floats:
            for name, count in FLOAT_OPERANDS.items():
                yield f"{type} @llvm.{name}.{suffix}({', '.join([type] * count)})"
            for to, target in integers:
                for word in ("fptosi", "fptoui"):
                    yield f"{target} @llvm.{word}.sat.{to}.{suffix}({type})"
        for suffix, type in integers:
            for name in ("smax", "smin", "umax", "umin"):
                yield f"{type} @llvm.{name}.{suffix}({type}, {type})"


SAMPLES = (*arithmetic(), *OTHERS)
"""Uses of those that every architecture has."""

SAMPLES_ALONE = {
    "sm_90a": (
        "void @llvm.nvvm.wgmma.fence.sync.aligned()",
        "void @llvm.nvvm.wgmma.commit_group.sync.aligned()",
        "void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 0)",
    )
}
"""Uses of those that one architecture alone has."""


def program(sample: str, number: int) -> str:
    """Return a kernel that reads the operands, calls the intrinsic and writes the result."""
    result, name, given = CALL.fullmatch(sample).groups()
    operands = re.split(r", (?![^<{]*[>}])", given) if given else []
    lines, arguments = [], []
    for n, operand in enumerate(operands):
        type, _, constant = (
            operand.partition(" ") if operand.startswith(("i32 ", "i64 ")) else (operand, "", "")
        )
        if constant:
            arguments.append(operand)
        else:
            place = "@shared" if type == SHARED else f"%v{n}"
            lines += [] if type == SHARED else [f"%v{n} = load volatile {type}, {GLOBAL} %x"]
            arguments.append(f"{type} {place}")
    call = f"call {result} {name}({', '.join(arguments)})"
    lines += [call] if result == "void" else [f"%y = {call}", f"store {result} %y, {GLOBAL} %x"]
    types = ", ".join(operand.removesuffix(" 0").removesuffix(" 1") for operand in operands)
    body = "\n".join(lines)
    return f"""target triple = "{TRIPLE}"
@shared = internal addrspace(3) global [1024 x i8] undef, align 16
declare {result} {name}({types})
define ptx_kernel void @k{number}({GLOBAL} %x) {{
{body}
ret void
}}"""


def main(archs: Sequence[str]) -> None:
    for arch in archs:
        samples = (*SAMPLES, *SAMPLES_ALONE.get(arch, ()))
        print(arch, flush=True)
        ptx = to_ptx([program(sample, n) for n, sample in enumerate(samples)], arch)
        # A name that is none becomes the call of a function that is nowhere.
        if unknown := re.search(r"\.extern \.func.*", ptx):
            raise SystemExit(unknown[0])
    print("all")


if __name__ == "__main__":
    main(sys.argv[1:])
