"""The text of one request as it grows."""

from collections.abc import Sequence

from lamina.frontend.tokenizer import Tokenizer
from lamina.runtime.sampling_params import SamplingParams
from lamina.runtime.stops import StopMatcher


class OutputText:
    """Turns token ids into text that may be shown: whole characters, up to a stop string."""

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        params: SamplingParams,
        prompt: Sequence[int] = (),
        *,
        live: bool = True,
    ) -> None:
        """Decode with `tokenizer` what goes on from `prompt`; without one there is no text.

        Text that is not shown `live` is decoded at the end, unless a stop string may come before.
        """
        self._stream = None if tokenizer is None else tokenizer.stream(after=prompt)
        self._stops = StopMatcher(params.stop, include=params.include_stop_str_in_output)
        self._live = live or bool(params.stop)
        self._held: list[int] = []
        self._pieces: list[str] = []

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.stopped

    @property
    def text(self) -> str:
        """All that was shown."""
        return "".join(self._pieces)

    def push(self, token: int) -> str:
        """Return what may be shown now that `token` has come, maybe nothing."""
        if self._stream is None:
            return ""
        if not self._live:
            self._held.append(token)
            return ""
        piece = self._stream.push(token)
        return self._shown(self._stops.push(piece) if piece else "")

    def finish(self) -> str:
        """Return what was held back and belongs to the text; call at the end."""
        if self._stream is not None:
            for token in self._held:
                self._shown(self._stops.push(self._stream.push(token)))
        rest = "" if self._stream is None or self.stopped else self._stream.finish()
        shown = self._stops.push(rest)
        return self._shown(shown if self.stopped else shown + self._stops.flush())

    def _shown(self, piece: str) -> str:
        if piece:
            self._pieces.append(piece)
        return piece
