from typing import Any

class BufferUsage:
    STORAGE: int
    UNIFORM: int
    COPY_SRC: int
    COPY_DST: int
    MAP_READ: int
    QUERY_RESOLVE: int

class GPUError(Exception): ...
class GPUOutOfMemoryError(GPUError, MemoryError): ...

class GPU:
    def enumerate_adapters_sync(self) -> list[Any]: ...

gpu: GPU
