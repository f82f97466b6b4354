"""Kernels in LLVM IR: what LLVM's NVPTX makes of them is what is run."""

from collections.abc import Iterator

DECLARATIONS = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare float @llvm.nvvm.ex2.approx.ftz.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare i32 @llvm.umin.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3), ptr addrspace(1), i32)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, i32, i32, float, float, float, float)
"""

BLOCK_SUM = """
@part = internal addrspace(3) global [8 x float] undef, align 16
define ptx_kernel void @softmax(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) align 16 %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %row = mul i32 %b, %n
  %warp = lshr i32 %t, 5
  %lane = and i32 %t, 31
  br label %loop
loop:
  %i = phi i32 [%t, %entry], [%i2, %body]
  %s = phi float [0.0, %entry], [%s2, %body]
  %more = icmp ult i32 %i, %n
  br i1 %more, label %body, label %warps
body:
  %at = add i32 %row, %i
  %xp = getelementptr float, ptr addrspace(1) %x, i32 %at
  %v = load float, ptr addrspace(1) %xp
  %scaled = fmul float %v, 0x3FF7154760000000
  %e = call float @llvm.nvvm.ex2.approx.ftz.f32(float %scaled)
  %s2 = fadd float %s, %e
  %i2 = add i32 %i, 128
  br label %loop
warps:
"""


def softmax() -> str:
    """A row's exponentials over their sum: by shuffles in a warp, then through shared memory."""
    lines, total = [], "%s"
    for step in (16, 8, 4, 2, 1):
        lines += [
            f"  %o{step} = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float {total}, i32 {step}, i32 31)",
            f"  %t{step} = fadd float {total}, %o{step}",
        ]
        total = f"%t{step}"
    return (
        DECLARATIONS
        + BLOCK_SUM
        + "\n".join(lines)
        + """
  %pp = getelementptr float, ptr addrspace(3) @part, i32 %warp
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %keep, label %meet
keep:
  store float %t1, ptr addrspace(3) %pp
  br label %meet
meet:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %q = load <4 x float>, ptr addrspace(3) @part
  %q0 = extractelement <4 x float> %q, i32 0
  %q1 = extractelement <4 x float> %q, i32 1
  %q2 = extractelement <4 x float> %q, i32 2
  %q3 = extractelement <4 x float> %q, i32 3
  %u0 = fadd float %q0, %q1
  %u1 = fadd float %u0, %q2
  %all = fadd float %u1, %q3
  br label %again
again:
  %j = phi i32 [%t, %meet], [%j2, %write]
  %left = icmp ult i32 %j, %n
  br i1 %left, label %write, label %done
write:
  %at2 = add i32 %row, %j
  %xp2 = getelementptr float, ptr addrspace(1) %x, i32 %at2
  %v2 = load float, ptr addrspace(1) %xp2
  %sc2 = fmul float %v2, 0x3FF7154760000000
  %e2 = call float @llvm.nvvm.ex2.approx.ftz.f32(float %sc2)
  %r = fdiv float %e2, %all
  %yp = getelementptr float, ptr addrspace(1) %y, i32 %at2
  store float %r, ptr addrspace(1) %yp
  %j2 = add i32 %j, 128
  br label %again
done:
  ret void
}
"""
    )


class Body:
    """Lines of IR, with fresh names for values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: Iterator[str] = (f"%v{n}" for n in range(100_000))

    def let(self, text: str) -> str:
        name = next(self._names)
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def swizzled(self, row: str, chunk: str) -> str:
        """Where 16 bytes lie in a tile with rows of 64: chunks are exchanged so that no banks meet."""
        half = self.let(f"lshr i32 {row}, 1")
        key = self.let(f"and i32 {half}, 3")
        moved = self.let(f"xor i32 {chunk}, {key}")
        start = self.let(f"shl i32 {row}, 6")
        return self.let(f"add i32 {start}, {self.let(f'shl i32 {moved}, 4')}")

    def shared(self, offset: str) -> str:
        return self.let(f"getelementptr i8, ptr addrspace(3) @tiles, i32 {offset}")


def gemm() -> str:
    """C[M, N] f32 = A[M, K] · B[N, K]ᵀ in bf16: 64 by 64 tiles, 4 warps, a pipeline of 3 stages."""
    b = Body()
    tid = b.let("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
    m0 = b.let(f"shl i32 {b.let('call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()')}, 6")
    n0 = b.let(f"shl i32 {b.let('call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()')}, 6")
    lane, warp = b.let(f"and i32 {tid}, 31"), b.let(f"lshr i32 {tid}, 5")
    wm = b.let(f"shl i32 {b.let(f'lshr i32 {warp}, 1')}, 5")
    wn = b.let(f"shl i32 {b.let(f'and i32 {warp}, 1')}, 5")
    steps = b.let(f"lshr i32 {b.let('add i32 %K, 31')}, 5")
    for stage in range(2):
        _load(b, tid, m0, n0, str(stage), str(stage))
    b.do("br label %loop")
    b.label("loop")
    b.do("%step = phi i32 [0, %entry], [%next, %body]")
    for n in range(32):
        b.do(f"%c{n} = phi float [0.0, %entry], [%d{n}, %body]")
    b.do("call void @llvm.nvvm.cp.async.wait.group(i32 1)")
    b.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    b.do(f"br i1 {b.let(f'icmp ult i32 %step, {steps}')}, label %body, label %out")
    b.label("body")
    ahead = b.let("add i32 %step, 2")
    _load(b, tid, m0, n0, ahead, b.let(f"urem i32 {ahead}, 3"))
    start = b.let(f"shl i32 {b.let('urem i32 %step, 3')}, 13")
    _multiply(b, lane, wm, wn, start)
    b.do("%next = add i32 %step, 1")
    b.do("br label %loop")
    b.label("out")
    _store(b, lane, b.let(f"add i32 {m0}, {wm}"), b.let(f"add i32 {n0}, {wn}"))
    return (
        DECLARATIONS
        + "@tiles = external addrspace(3) global [0 x i8], align 128\n"
        + "define ptx_kernel void @gemm(ptr addrspace(1) noalias readonly align 16 %A,"
        + " ptr addrspace(1) noalias readonly align 16 %B, ptr addrspace(1) noalias %C,"
        + " i32 %M, i32 %N, i32 %K) {\nentry:\n"
        + "\n".join(b.lines)
        + "\n  ret void\n}\n"
    )


def _load(b: Body, tid: str, m0: str, n0: str, step: str, stage: str) -> None:
    base = b.let(f"shl i32 {stage}, 13")
    for part in range(2):
        at = b.let(f"add i32 {tid}, {128 * part}")
        row, chunk = b.let(f"lshr i32 {at}, 2"), b.let(f"and i32 {at}, 3")
        k = b.let(f"add i32 {b.let(f'shl i32 {step}, 5')}, {b.let(f'shl i32 {chunk}, 3')}")
        left = b.let(f"shl i32 {b.let(f'sub i32 %K, {k}')}, 1")
        some = b.let(f"call i32 @llvm.smax.i32(i32 {left}, i32 0)")
        size = b.let(f"call i32 @llvm.smin.i32(i32 {some}, i32 16)")
        place = b.let(f"add i32 {base}, {b.swizzled(row, chunk)}")
        for pointer, first, extent, offset in (("%A", m0, "%M", 0), ("%B", n0, "%N", 4096)):
            line = b.let(f"add i32 {first}, {row}")
            inside = b.let(f"icmp ult i32 {line}, {extent}")
            count = b.let(f"select i1 {inside}, i32 {size}, i32 0")
            none = b.let(f"icmp eq i32 {count}, 0")
            index = b.let(f"add i32 {b.let(f'mul i32 {line}, %K')}, {k}")
            kept = b.let(f"select i1 {none}, i32 0, i32 {index}")
            source = b.let(f"getelementptr bfloat, ptr addrspace(1) {pointer}, i32 {kept}")
            target = b.shared(b.let(f"add i32 {place}, {offset}"))
            b.do(
                "call void @llvm.nvvm.cp.async.cg.shared.global.16.s("
                f"ptr addrspace(3) {target}, ptr addrspace(1) {source}, i32 {count})"
            )
    b.do("call void @llvm.nvvm.cp.async.commit.group()")


def _fragment(b: Body, place: str) -> list[str]:
    four = "{i32, i32, i32, i32}"
    loaded = b.let(
        f"call {four} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) {b.shared(place)})"
    )
    return [b.let(f"extractvalue {four} {loaded}, {n}") for n in range(4)]


def _multiply(b: Body, lane: str, wm: str, wn: str, start: str) -> None:
    four = "{float, float, float, float}"
    held = [f"%c{n}" for n in range(32)]
    for k in range(2):
        left, right = [], []
        for i in range(2):
            row = b.let(
                f"add i32 {b.let(f'add i32 {wm}, {16 * i}')}, {b.let(f'and i32 {lane}, 15')}"
            )
            chunk = b.let(f"add i32 {b.let(f'lshr i32 {lane}, 4')}, {2 * k}")
            left.append(_fragment(b, b.let(f"add i32 {start}, {b.swizzled(row, chunk)}")))
        for j in range(2):
            inner = b.let(f"and i32 {lane}, 7")
            upper = b.let(f"shl i32 {b.let(f'lshr i32 {lane}, 4')}, 3")
            row = b.let(
                f"add i32 {b.let(f'add i32 {wn}, {16 * j}')}, {b.let(f'add i32 {inner}, {upper}')}"
            )
            odd = b.let(f"and i32 {b.let(f'lshr i32 {lane}, 3')}, 1")
            chunk = b.let(f"add i32 {odd}, {2 * k}")
            place = b.let(f"add i32 {b.let(f'add i32 {start}, 4096')}, {b.swizzled(row, chunk)}")
            words = _fragment(b, place)
            right += [words[:2], words[2:]]
        for i in range(2):
            for j in range(4):
                at = 16 * i + 4 * j
                args = [f"i32 {word}" for word in (*left[i], *right[j])]
                args += [f"float {value}" for value in held[at : at + 4]]
                made = b.let(f"call {four} @llvm.nvvm.mma.m16n8k16.row.col.bf16({', '.join(args)})")
                for n in range(4):
                    if k:
                        b.do(f"%d{at + n} = extractvalue {four} {made}, {n}")
                        held[at + n] = f"%d{at + n}"
                    else:
                        held[at + n] = b.let(f"extractvalue {four} {made}, {n}")


def _store(b: Body, lane: str, m: str, n: str) -> None:
    row = b.let(f"add i32 {m}, {b.let(f'lshr i32 {lane}, 2')}")
    pair = b.let(f"and i32 {lane}, 3")
    column = b.let(f"add i32 {n}, {b.let(f'shl i32 {pair}, 1')}")
    for i in range(2):
        for j in range(4):
            for e in range(4):
                at = 16 * i + 4 * j + e
                y = b.let(f"add i32 {row}, {16 * i + 8 * (e // 2)}")
                x = b.let(f"add i32 {column}, {8 * j + e % 2}")
                inside = b.let(
                    f"and i1 {b.let(f'icmp slt i32 {y}, %M')}, {b.let(f'icmp slt i32 {x}, %N')}"
                )
                b.do(f"br i1 {inside}, label %store{at}, label %skip{at}")
                b.label(f"store{at}")
                index = b.let(f"add i32 {b.let(f'mul i32 {y}, %N')}, {x}")
                pointer = b.let(f"getelementptr float, ptr addrspace(1) %C, i32 {index}")
                b.do(f"store float %c{at}, ptr addrspace(1) {pointer}")
                b.do(f"br label %skip{at}")
                b.label(f"skip{at}")
