"""Stop strings, found in text that comes in pieces."""

from collections.abc import Sequence

from lamina.errors import InputError


class StopMatcher:
    """Passes generated text on, up to the first stop string, which it keeps back or ends with.

    Text that may yet turn out to begin a stop string is held until that is decided, so no part
    of a stop string leaks, however the text is cut into pieces. Among several stop strings the
    one that is complete first wins, and of those complete at once the longest.
    Each string is matched as in Knuth, Morris and Pratt, "Fast pattern matching in strings".
    """

    matched: str | None
    """The stop string that was found; None until then."""

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        """Look for each of `stops`; `InputError` if one is empty.

        With `include` the one that is found is passed on too, and nothing after it.
        """
        if "" in stops:
            raise InputError("a stop string is empty: each must have at least one character")
        self.matched = None
        self._include = include
        self._stops = sorted(set(stops), key=len, reverse=True)
        self._borders = [_borders(stop) for stop in self._stops]
        self._lengths = [0] * len(self._stops)
        self._held = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found, after which no more text is passed on."""
        return self.matched is not None

    def push(self, piece: str) -> str:
        """Take the next piece of generated text; return what may be shown now, maybe nothing."""
        if self.stopped:
            return ""
        text = self._held + piece
        for end in range(len(self._held), len(text)):
            self.matched = self._advance(text[end])
            if self.matched is not None:
                self._held = ""
                return text[: end + 1 - (0 if self._include else len(self.matched))]
        shown = len(text) - max(self._lengths, default=0)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """Return the held text, which no stop string can complete any more; call at the end."""
        held, self._held = self._held, ""
        self._lengths = [0] * len(self._stops)
        return held

    def _advance(self, character: str) -> str | None:
        found = None
        for n, (stop, borders) in enumerate(zip(self._stops, self._borders, strict=True)):
            length = self._lengths[n]
            while length and stop[length] != character:
                length = borders[length - 1]
            length += stop[length] == character
            self._lengths[n] = length
            if length == len(stop) and found is None:
                found = stop
        return found


def _borders(stop: str) -> list[int]:
    """For each prefix of `stop`: the longest proper prefix of it that is also its suffix."""
    borders = [0] * len(stop)
    length = 0
    for end in range(1, len(stop)):
        while length and stop[length] != stop[end]:
            length = borders[length - 1]
        length += stop[length] == stop[end]
        borders[end] = length
    return borders
