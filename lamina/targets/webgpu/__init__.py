"""The WebGPU target: simt kernels to WGSL, run on whatever adapter wgpu finds."""
