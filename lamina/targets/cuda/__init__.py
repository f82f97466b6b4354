"""The CUDA target: threads' programs in LLVM IR, PTX from LLVM, and the driver."""
