"""Artifacts compiled before, found by what they were compiled from."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lamina import knobs
from lamina.targets.artifact_store import ArtifactCache, artifact_key
from lamina.targets.base import Artifact, Target
from lamina.targets.file_lock import alone
from lamina.targets.spec import target_spec

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_LOWERED = "lowered"
"""Stands for the pipeline where a module has gone through all of it."""


@dataclass(frozen=True)
class ArtifactLookup:
    """The artifacts of one target: `host` is what they depend on of machine and plugins."""

    cache: ArtifactCache
    target: str
    host: str

    @staticmethod
    def of(target: Target, plugins: str | None) -> ArtifactLookup | None:
        """Return those of `target` in the cache folder; None if nothing is to be kept.

        `plugins` identifies the code of all plugins, None if there is no telling.
        """
        host = target.host()
        if host is None or plugins is None or (folder := knobs.kept_dir()) is None:
            return None
        cache = ArtifactCache(folder / "artifacts")
        return ArtifactLookup(cache, target_spec(target), f"{host} {plugins}")

    def key_of_header(self, header: bytes | None, pipeline: str) -> str | None:
        """Return the key of what `pipeline` makes of a file with this header; None without one."""
        return None if header is None else artifact_key(header, self.target, pipeline, self.host)

    def key_of_module(self, module: ModuleOp) -> str:
        """Return the key of a module that has gone through all passes."""
        return artifact_key(str(module).encode(), self.target, _LOWERED, self.host)

    def find(self, key: str | None) -> Artifact | None:
        """Return the artifact of a key, if there is one and it is whole."""
        return None if key is None else self.cache.find(key)

    def alone(self, key: str | None) -> AbstractContextManager[None]:
        """Return a block in which no other process compiles what `key` is of."""
        if key is None:
            return nullcontext()
        return alone(self.cache.folder / f"{key}.lock")

    def keep(self, artifact: Artifact, *keys: str | None) -> None:
        """Keep an artifact under each of the keys."""
        for key in keys:
            if key is not None:
                self.cache.keep(key, artifact)
