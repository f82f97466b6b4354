"""What a measurement ran on."""

import os
import platform
from pathlib import Path

from lamina.targets.cpu.features import detect


def describe() -> str:
    """Return the processor, the CPUs this process may use, their best feature level, the system."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{_processor()}, {cpus} CPUs, {detect().level}, {system}"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
