"""Every hook a plugin may implement. `docs/plugins.md` has a section for each.

Names come with factories, so that listing what there is imports none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from xdsl.ir import Dialect, Operation
    from xdsl.passes import ModulePass
    from xdsl.pattern_rewriter import RewritePattern

    from lamina.frontend.onnx.registry import Table
    from lamina.frontend.settings import SettingsReader
    from lamina.targets.base import Target

PROJECT = "lamina"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_dialects() -> Mapping[str, Callable[[], Dialect]]:
    """Return dialects by name, for every context."""
    return {}


@hookspec
def register_meanings() -> Mapping[type[Operation], Callable[..., Any]]:
    """Return what operations compute, in NumPy, for the reference target."""
    return {}


@hookspec
def register_decompositions() -> Mapping[type[Operation], Callable[[], RewritePattern]]:
    """Return for composite operations the pattern that spells each in simpler ones."""
    return {}


@hookspec
def register_tile_rules() -> Mapping[type[Operation], Callable[..., Any]]:
    """Return how kernels compute a tile of operations that map elements to elements."""
    return {}


@hookspec
def register_passes() -> Mapping[str, Callable[[], type[ModulePass]]]:
    """Return passes by name, for pipelines."""
    return {}


@hookspec
def register_insertions() -> Mapping[str, str]:
    """Return by spec of a pass the extension point at which default pipelines run it."""
    return {}


@hookspec
def register_targets() -> Mapping[str, Callable[[], type[Target]]]:
    """Return targets by name, for `compile`."""
    return {}


@hookspec
def register_frontends() -> Mapping[str, Callable[[], Any]]:
    """Return readers of model files by the format's name, for `read`."""
    return {}


@hookspec
def register_settings() -> Mapping[str, SettingsReader]:
    """Return by the name that files give an architecture what reads its settings."""
    return {}


@hookspec
def register_converters() -> Mapping[str, Callable[[], Any]]:
    """Return by architecture name what turns a checkpoint of it into a module."""
    return {}


@hookspec
def register_operators() -> Mapping[str, Callable[[], Table]]:
    """Return by any name a table of what turns nodes of ONNX graphs into operations."""
    return {}
