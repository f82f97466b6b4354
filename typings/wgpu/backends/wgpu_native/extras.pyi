from collections.abc import Sequence
from typing import Any

lib: Any

def set_instance_extras(backends: Sequence[str] = ...) -> None: ...
