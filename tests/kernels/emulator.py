"""Kernels as machine code for AArch64, run by an emulator in an image of their memory."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from calling import GUARD, LINE, POISON, words

from lamina.dialects.tile import KernelOp
from lamina.targets.cpu.features import emittable
from lamina.targets.cpu.jit import compile_text
from lamina.targets.cpu.lowering import KernelCode, NodeTable, emit_kernel
from lamina.targets.reference.kernel import grid_of

BASE = 0x10_0000_0000
DRIVER = Path(__file__).parent / "run_image.c"


class Emulator:
    """Links kernels into programs of their own, in `folder`, and runs these.

    `needs` finds a tool, and skips or fails where it is missing.
    """

    def __init__(self, needs: Callable[..., str], folder: Path) -> None:
        self._emulate = needs("qemu-aarch64", "qemu-aarch64-static", package="qemu-user")
        cc = needs("aarch64-linux-gnu-gcc", package="gcc-aarch64-linux-gnu")
        self._ld = needs("aarch64-linux-gnu-ld", package="binutils-aarch64-linux-gnu")
        self._folder, self._driver = folder, folder / "driver.o"
        options = ("-O1", "-ffreestanding", "-fno-stack-protector")
        subprocess.run([cc, *options, "-c", DRIVER, "-o", self._driver], check=True)
        self._known: dict[tuple[KernelOp, str], tuple[KernelCode, NodeTable, Path]] = {}

    def run(
        self,
        kernel: KernelOp,
        memrefs: Sequence[np.ndarray],
        values: Mapping[str, int],
        level: str,
    ) -> str | None:
        """Run every program of a kernel in place; return the node of a failed check."""
        code, nodes, program = self._compiled(kernel, level)
        error = np.zeros(1, np.int32)
        image = Image([*memrefs, np.zeros(code.scratch_bytes, np.uint8), error])
        *places, scratch, failed = image.addresses
        arguments = image.append(words(kernel, memrefs, values, places))
        grid = (*grid_of(kernel, values), 1, 1)[:3]
        head = np.array([BASE, image.size, arguments, scratch, failed, *grid], np.uint64)
        with self._files() as (given, left):
            given.write_bytes(head.tobytes() + image.memory.tobytes())
            subprocess.run([self._emulate, "-cpu", "max", program, given, left], check=True)
            image.update(np.fromfile(left, np.uint8))
        return nodes.names[error[0] - 1] if error[0] else None

    def _compiled(self, kernel: KernelOp, level: str) -> tuple[KernelCode, NodeTable, Path]:
        if (kernel, level) not in self._known:
            nodes, features = NodeTable(), emittable(level)
            code = emit_kernel(kernel, features, nodes)
            path = self._folder / f"kernel{len(self._known)}"
            item = path.with_suffix(".o")
            item.write_bytes(compile_text(code.text, features))
            command = [self._ld, f"--defsym=kernel={code.name}", "-z", "noexecstack"]
            subprocess.run([*command, self._driver, item, "-o", path], check=True)
            self._known[kernel, level] = code, nodes, path
        return self._known[kernel, level]

    @contextmanager
    def _files(self) -> Iterator[tuple[Path, Path]]:
        folder = self._folder / "call"
        folder.mkdir()
        try:
            yield folder / "given", folder / "left"
        finally:
            shutil.rmtree(folder)


class Image:
    """Arrays in one piece of memory that is for the address BASE, with a guard behind each.

    What an array is a view of is there once, whole; so views may share memory.
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.memory = np.empty(0, np.uint8)
        self._places: dict[int, tuple[int, np.ndarray]] = {}
        self.addresses = [self._address(array) for array in arrays]

    @property
    def size(self) -> int:
        return self.memory.size

    def append(self, array: np.ndarray) -> int:
        """Add a contiguous array at the start of a line; return its address."""
        place, used = self.size, array.nbytes + GUARD
        more = np.full(-(-used // LINE) * LINE, POISON, np.uint8)
        more[: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        self.memory = np.concatenate([self.memory, more])
        return BASE + place

    def update(self, memory: np.ndarray) -> None:
        """Take what the kernel has left; nothing may have changed between the arrays."""
        outside = np.ones(self.size, np.bool_)
        for address, array in self._places.values():
            place = slice(address - BASE, address - BASE + array.nbytes)
            outside[place] = False
            if not array.flags.writeable:
                continue
            array[...] = memory[place].view(array.dtype).reshape(array.shape)
        assert (memory[outside] == self.memory[outside]).all(), "the kernel wrote past its memory"

    def _address(self, array: np.ndarray) -> int:
        whole = array if array.base is None else array.base
        assert whole.flags.c_contiguous
        if id(whole) not in self._places:
            self._places[id(whole)] = self.append(whole), whole
        return self._places[id(whole)][0] + array.ctypes.data - whole.ctypes.data
