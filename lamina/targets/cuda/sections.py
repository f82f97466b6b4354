"""The sections of a CUDA artifact, beside those of its plan."""

from typing import Final

PTX: Final = "ptx"
"""The text of all kernels."""

KERNELS: Final = "kernels"
"""JSON: of each kernel, what has to be known to launch it."""

CUBIN: Final = "cubin"
"""Machine code of the kernels for the architecture that was asked for; absent without nvJitLink."""
