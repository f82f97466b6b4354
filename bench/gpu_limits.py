"""What a CUDA device is, and what it reaches: reading, copying, launching."""

import importlib.metadata
from importlib.util import find_spec

import numpy as np
from gpu_device import DeviceKernel, threaded
from gpu_setting import Records, Setting

from lamina.targets.cuda.cubins import linker_version
from lamina.targets.cuda.target import CudaTarget

WIDTH = 4096
"""Elements of f32 that a block has."""
CHECKED = 256
"""Rows that are brought to the device and checked; the others are 0."""

_END = f"shape = array<i64: 1, {WIDTH}>, in_bounds = array<i64: 0, 1>"
_TAKEN = f"tile.load %x[%i, %zero] {{{_END}}} : memref<?x{WIDTH}xf32>[index, index]"

COPY = f"""
tile.kernel @copy attributes {{symbols = ["n"], grid = ["n"], access = ["read", "write"]}} {{
^bb0(%x: memref<?x{WIDTH}xf32>, %y: memref<?x{WIDTH}xf32>, %n: index):
  %zero = arith.constant 0 : index
  %i = tile.program_id {{dim = 0 : i64}}
  %row = {_TAKEN} -> vector<{WIDTH}xf32>
  tile.store %row, %y[%i, %zero] {{{_END}, unique}} : vector<{WIDTH}xf32>, \
memref<?x{WIDTH}xf32>[index, index]
  tile.return
}}"""
READ = f"""
tile.kernel @read attributes {{symbols = ["n"], grid = ["n"], access = ["read", "write"]}} {{
^bb0(%x: memref<?x{WIDTH}xf32>, %y: memref<?xf32>, %n: index):
  %zero = arith.constant 0 : index
  %i = tile.program_id {{dim = 0 : i64}}
  %row = {_TAKEN} -> vector<{WIDTH}xf32>
  %sum = tile.reduce %row {{kind = "add", dims = array<i64: 0>}} : (vector<{WIDTH}xf32>) -> f32
  tile.store %sum, %y[%i] {{shape = array<i64: 1>, unique}} : f32, memref<?xf32>[index]
  tile.return
}}"""

_FACTS = {
    "clock_mhz": ("CLOCK_RATE", 1000),
    "memory_clock_mhz": ("MEMORY_CLOCK_RATE", 1000),
    "bus_bits": ("GLOBAL_MEMORY_BUS_WIDTH", 1),
    "l2_megabytes": ("L2_CACHE_SIZE", 1 << 20),
}


def facts(setting: Setting) -> Records:
    """Say what the device is, and what else is installed."""
    device = setting.device
    with device.lock:
        free, total = device.call("cuMemGetInfo")
        kinds = device.driver.CUdevice_attribute
        known = {
            name: device.call(
                "cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{word}"), device.handle
            )
            / unit
            for name, (word, unit) in _FACTS.items()
        }
        version = device.call("cuDriverGetVersion")
    yield {
        "name": device.name,
        "capability": ".".join(map(str, device.capability)),
        "multiprocessors": device.multiprocessors,
        "memory_gb": total / 1e9,
        "free_gb": free / 1e9,
        "driver": version,
        "torch": importlib.metadata.version("torch") if find_spec("torch") else None,
        "nvjitlink": linker_version(),
        **known,
    }


def limits(setting: Setting) -> Records:
    """Measure copying and reading, by the driver and by kernels of a few lines."""
    device, rows = setting.device, setting.size(1 << 16, 3)
    nbytes, row = rows * WIDTH * 4, WIDTH * 4
    values = {"n": rows}
    with device.lock:
        x, y = device.storage(nbytes), device.storage(nbytes)
        device.call("cuMemsetD32Async", x.address, 0, nbytes // 4, device.stream)
        drawn = np.random.default_rng(0).standard_normal((min(rows, CHECKED), WIDTH), np.float32)
        device.write(x, drawn)
    shapes = {"copy": ((rows, WIDTH), (WIDTH, 1)), "read": ((rows,), (1,))}
    moved = {"copy": 2 * nbytes, "read": nbytes + 4 * rows}
    found: dict[str, float] = {}
    for name, text in (("copy", COPY), ("read", READ)):
        kernel = DeviceKernel(device, threaded(text), CudaTarget.arch)
        given = [(shapes["copy"]), shapes[name]]
        launch = kernel.launch([x, y], given, values, [rows])
        found[name] = moved[name] / setting.clock.seconds(lambda each=launch: each.give(device))
        with device.lock:
            y_data = device.read(y, 0, row if name == "copy" else 4 * len(drawn)).view(np.float32)
        expected = drawn[0] if name == "copy" else drawn.sum(1, dtype=np.float64)
        yield {
            "name": f"{name}, our kernel",
            "gb_per_s": found[name] / 1e9,
            "ok": bool(np.allclose(y_data, expected, rtol=1e-4, atol=1e-2)),
        }
    by_driver = setting.clock.seconds(
        lambda: device.call("cuMemcpyDtoDAsync", y.address, x.address, nbytes, device.stream)
    )
    yield {"name": "copy, the driver", "gb_per_s": 2 * nbytes / by_driver / 1e9}
    found["copy"] = max(found["copy"], 2 * nbytes / by_driver)
    found["read"] = max(found["read"], found["copy"])
    setting.keep_limits(found)
    yield _launching(setting)


def _launching(setting: Setting) -> dict[str, object]:
    """Return how long a kernel of one block takes among others of its kind."""
    device = setting.device
    kernel = DeviceKernel(device, threaded(COPY), CudaTarget.arch)
    with device.lock:
        buffers = [device.storage(4 * WIDTH) for _ in range(2)]
    shape = ((1, WIDTH), (WIDTH, 1))
    launch = kernel.launch(buffers, [shape, shape], {"n": 1}, [1])
    return {
        "name": "a launch after another",
        "us": 1e6 * setting.clock.seconds(lambda: launch.give(device)),
    }
