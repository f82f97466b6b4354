"""How code outside this package adds operations, passes, targets and readers of models."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.plugins: the link at the repository's root is for reading")

from lamina.plugins.hookspecs import hookimpl
from lamina.plugins.lazy import lazy

__all__ = ["hookimpl", "lazy"]
