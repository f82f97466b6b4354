"""Ragged batches for decoders: sequences that grow over calls, their pages in random order."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lamina.frontend.decoder import PAGE

COUNT = 40
"""Pages in a pool."""

Call = Callable[..., Mapping[str, np.ndarray]]


class Sequences:
    """The state of some sequences between calls; unwritten rows of their pools hold junk."""

    def __init__(self, layers: int, heads: int, size: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        shape = (COUNT, heads, PAGE, size)
        self.pools = {
            f"{part}.{layer}": rng.normal(0, 100, shape).astype(np.float32)
            for layer in range(layers)
            for part in "kv"
        }
        self.free = list(rng.permutation(COUNT))
        self.pages: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def batch(self, parts: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
        """The inputs that append these tokens to these sequences, all logits wanted."""
        positions: list[int] = []
        for name, tokens in parts.items():
            start = self.lengths.get(name, 0)
            self.lengths[name] = start + len(tokens)
            positions += range(start, self.lengths[name])
            pages = self.pages.setdefault(name, [])
            while len(pages) * PAGE < self.lengths[name]:
                pages.append(self.free.pop())
        widest = max(len(self.pages[name]) for name in parts)
        sizes = [len(tokens) for tokens in parts.values()]
        inputs = {
            "tokens": [token for tokens in parts.values() for token in tokens],
            "positions": positions,
            "query_start": [0, *np.cumsum(sizes)],
            "table": [self.pages[n] + [0] * (widest - len(self.pages[n])) for n in parts],
            "work": [[s, b] for s, size in enumerate(sizes) for b in range(-(-size // PAGE))],
            "rows": range(sum(sizes)),
        }
        return {name: np.array(values, np.int32) for name, values in inputs.items()}

    def step(self, call: Call, **parts: Sequence[int]) -> dict[str, np.ndarray]:
        """Append these tokens by one call; return the logits after each, by sequence."""
        inputs = self.batch(parts)
        found = call(**inputs, **self.pools)["logits"]
        return {
            name: found[start:end]
            for name, start, end in zip(
                parts, inputs["query_start"], inputs["query_start"][1:], strict=False
            )
        }
