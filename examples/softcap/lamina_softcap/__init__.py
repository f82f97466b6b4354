"""An operation of one's own: the plugin, named by an entry point of the group `lamina`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lamina.plugins import hookimpl, lazy


@hookimpl
def register_dialects() -> Mapping[str, Callable[[], Any]]:
    """Offer the dialect `acme`."""
    return {"acme": lazy("lamina_softcap.dialect:ACME")}


@hookimpl
def register_meanings() -> Mapping[Any, Callable[..., Any]]:
    """Say what `acme.softcap` computes in NumPy."""
    from lamina_softcap.dialect import SoftcapOp
    from lamina_softcap.meaning import softcap

    return {SoftcapOp: softcap}


@hookimpl
def register_decompositions() -> Mapping[Any, Callable[[], Any]]:
    """Say it again, in simpler operations: with this alone it runs on every target."""
    from lamina_softcap.decomposition import SoftcapToTanh
    from lamina_softcap.dialect import SoftcapOp

    return {SoftcapOp: SoftcapToTanh}


@hookimpl
def register_tile_rules() -> Mapping[Any, Callable[..., Any]]:
    """Say it once more, for kernels, in fewer operations than its decomposition has."""
    from lamina_softcap.dialect import SoftcapOp
    from lamina_softcap.tile_rule import tile_of

    return {SoftcapOp: tile_of}


@hookimpl
def register_passes() -> Mapping[str, Callable[[], Any]]:
    """Offer the pass that recognises a soft cap in its parts."""
    return {"fuse-softcap": lazy("lamina_softcap.fuse_softcap:FuseSoftcapPass")}


@hookimpl
def register_insertions() -> Mapping[str, str]:
    """Put it where graphs are as they were imported."""
    return {"fuse-softcap": "import"}
