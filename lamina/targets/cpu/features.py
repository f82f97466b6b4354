"""What a CPU can do, as far as the code for it differs, and how a level below the host's is had."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.cpu.caches import CacheSizes, cache_sizes


@dataclass(frozen=True)
class CpuFeatures:
    """A feature level on a machine: the numbers that the lowering and LLVM go by.

    `vector_bytes` is the size of a register, `registers` how many there are; `fma`, `rounding`
    (floor, round half to even) and `half` (f16 <-> f32) say that there are instructions for them;
    `madd` names the intrinsic that multiplies pairs of i16 and adds neighbours; `vnni` and
    `dotprod` that 8-bit dots have an instruction, for operands of two signednesses and of one.
    `l1` and `l2` are the bytes of a core's data caches.
    """

    level: str
    triple: str
    cpu: str
    flags: str
    vector_bytes: int
    fma: bool
    rounding: bool
    half: bool
    madd: str = ""
    vnni: bool = False
    dotprod: bool = False
    registers: int = 16
    l1: int = CacheSizes.l1
    l2: int = CacheSizes.l2

    @property
    def masked(self) -> bool:
        """Whether vectors of every element type are loaded and stored under a mask."""
        return self.vector_bytes == 64

    def lanes(self, bits: int) -> int:
        """Return the lanes of a register for elements of `bits`; an i1 counts as 32 bits."""
        return self.vector_bytes * 8 // (32 if bits == 1 else bits)


@dataclass(frozen=True)
class _Level:
    architecture: str
    needs: frozenset[str]
    cpu: str
    flags: str
    vector_bytes: int
    fma: bool
    rounding: bool
    half: bool
    madd: str = ""
    vnni: bool = False
    dotprod: bool = False
    registers: int = 16


_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
_NEON = frozenset({"neon"})
_MADD512 = "llvm.x86.avx512.pmaddw.d.512"

LEVELS: Final[dict[str, _Level]] = {
    "avx512vnni": _Level(
        "x86_64", _AVX512 | {"avx512vnni"}, "x86-64-v4", "+avx512vnni,-prefer-256-bit",
        64, True, True, True, _MADD512, True, registers=32,
    ),
    "avx512": _Level(
        "x86_64", _AVX512, "x86-64-v4", "-prefer-256-bit",
        64, True, True, True, _MADD512, registers=32,
    ),
    "avx2": _Level(
        "x86_64", _AVX2, "x86-64-v3", "", 32, True, True, True, "llvm.x86.avx2.pmadd.wd"
    ),
    "neondot": _Level(
        "aarch64", _NEON | {"dotprod"}, "generic", "+neon,+dotprod",
        16, True, True, True, dotprod=True, registers=32,
    ),
    "neon": _Level("aarch64", _NEON, "generic", "+neon", 16, True, True, True, registers=32),
    "generic": _Level("", frozenset(), "", "", 16, False, False, False),
}  # fmt: skip
"""Every level, best first: an artifact of one level runs on each host that has what it needs."""

_ELSEWHERE: Final = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
}
"""The triples of code for machines of another architecture than this one."""

_WIDE: Final = "-prefer-256-bit,-gfni"
"""What is switched off beside 512-bit vectors: GFNI shifts bytes in the units that multiply, which
8-bit dots fill, where a shift of words and a mask take others."""

_BASELINE: Final = {"x86_64": "x86-64", "aarch64": "generic"}


@cache
def detect(level: str | None = None) -> CpuFeatures:
    """Return the best level of this machine, or `level` with everything above it masked.

    The best level is tuned to the machine; a masked one gets the baseline of its name.
    InputError if there is no such level, TargetUnavailable if this machine lacks it.
    """
    available = levels()
    if level is None:
        return _host(available[0])
    if level not in LEVELS:
        raise InputError(f"there is no CPU level {level!r}: choose one of {', '.join(LEVELS)}")
    if level not in available:
        raise TargetUnavailable(f"this machine has no {level}: it has {', '.join(available)}")
    return _features(level, _triple())


@cache
def emittable(level: str | None = None) -> CpuFeatures:
    """Return what code of `level` is emitted for: `detect`, or Linux on another architecture.

    Code for another architecture can be looked at and carried there, but not loaded here.
    Raises as `detect`.
    """
    architecture = LEVELS[level].architecture if level in LEVELS else ""
    if level is None or architecture in ("", architecture_of(_triple())):
        return detect(level)
    return _features(level, _ELSEWHERE[architecture])


def architecture_of(triple: str) -> str:
    """Return the first word of a target triple."""
    return triple.split("-", maxsplit=1)[0]


@cache
def levels() -> tuple[str, ...]:
    """Return the levels that this machine can run, best first."""
    have = _host_flags()
    architecture = architecture_of(_triple())
    return tuple(
        name
        for name, level in LEVELS.items()
        if level.architecture in ("", architecture) and level.needs <= have
    )


def _features(name: str, triple: str) -> CpuFeatures:
    level = LEVELS[name]
    architecture = architecture_of(triple)
    cpu = level.cpu or _BASELINE.get(architecture, "")
    here = architecture == architecture_of(_triple())
    caches = cache_sizes() if here else CacheSizes()
    return CpuFeatures(
        name, triple, cpu, level.flags, level.vector_bytes, level.fma, level.rounding,
        level.half, level.madd, level.vnni, level.dotprod, level.registers, caches.l1, caches.l2,
    )  # fmt: skip


def _host(name: str) -> CpuFeatures:
    import dataclasses

    from lamina.targets.cpu.binding import llvm

    features = _features(name, _triple())
    if not LEVELS[name].needs:
        return features
    flags = llvm.get_host_cpu_features().flatten()
    tuned = f"{flags},{_WIDE}" if features.vector_bytes == 64 else flags
    return dataclasses.replace(features, cpu=llvm.get_host_cpu_name(), flags=tuned)


def _host_flags() -> frozenset[str]:
    from lamina.targets.cpu.binding import llvm

    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


def _triple() -> str:
    from lamina.targets.cpu.binding import llvm

    return llvm.get_process_triple()
