"""The adapters that wgpu finds, and which of them is meant."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, Final

from lamina import knobs
from lamina.errors import TargetUnavailable

AUTO: Final = "auto"
"""The adapter that is likely the fastest."""

_BACKENDS: Final = ("Vulkan", "Metal", "D3D12")
_KINDS: Final = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown", "CPU")


def find_adapter(which: str) -> Any:
    """Return the adapter of this number, or the likely fastest one for "auto".

    Raises TargetUnavailable where there is no wgpu, no driver, or no such adapter.
    """
    found = list_adapters()
    if which == AUTO:
        return min(found, key=_rank)
    if not which.isascii() or not which.isdecimal() or int(which) >= len(found):
        known = "; ".join(f"{n}: {each.summary}" for n, each in enumerate(found))
        raise TargetUnavailable(
            f"webgpu has no adapter {which!r}: expected auto or a number of these ({known})"
        )
    return found[int(which)]


def list_adapters() -> list[Any]:
    """Return the adapters that kernels can run on; TargetUnavailable if there is none."""
    try:
        import wgpu
    except ImportError:
        raise TargetUnavailable(
            "webgpu needs the package wgpu: install it with pip install 'lamina[webgpu]'"
        ) from None
    knobs.name_runtime_folder()
    try:
        _leave_out_others()
        every = wgpu.gpu.enumerate_adapters_sync()
    except Exception as error:
        raise TargetUnavailable(f"webgpu finds no adapter: {_first_line(error)}") from None
    found = [each for each in every if each.info["backend_type"] in _BACKENDS]
    if not found:
        raise TargetUnavailable(
            "webgpu finds no adapter: install a driver for Vulkan, such as the Debian package "
            "mesa-vulkan-drivers, which needs no GPU"
        )
    return found


@cache
def _leave_out_others() -> None:
    """Have wgpu not look for adapters that cannot run kernels, which takes it a while."""
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    # Whoever uses wgpu beside us may have begun before.
    with suppress(RuntimeError):
        set_instance_extras(backends=["Vulkan", "Metal", "DX12"])


def _rank(adapter: Any) -> int:
    kind = adapter.info["adapter_type"]
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
