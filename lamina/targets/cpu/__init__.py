"""The CPU target: tile kernels to LLVM, a thread pool, and a walker of plans."""
