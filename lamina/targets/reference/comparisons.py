"""What each kind of comparison is in NumPy; one with a NaN is false, but for `ne`."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""By the name that `nn.compare` and `tile.compare` have for it."""
