"""What a caller may ask of sampling, checked."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Final, cast

from lamina.arguments import whole_number
from lamina.errors import InputError

GREEDY_BELOW: Final = 1e-5
"""A lower temperature would only overflow: the likeliest token is taken instead."""

_LARGEST_COUNT: Final = 2**31 - 1
_LARGEST_SEED: Final = 2**64 - 1

_COUNTS: Final[dict[str, tuple[int, int]]] = {
    "max_new_tokens": (1, _LARGEST_COUNT),
    "top_k": (-1, _LARGEST_COUNT),
    "seed": (0, _LARGEST_SEED),
}
_NUMBERS: Final[dict[str, tuple[str, Callable[[float], bool]]]] = {
    "temperature": ("at least 0 and finite", lambda x: 0 <= x < math.inf),
    "top_p": ("from 0 to 1", lambda x: 0 <= x <= 1),
    "min_p": ("from 0 to 1", lambda x: 0 <= x <= 1),
    "repetition_penalty": ("above 0 and finite", lambda x: 0 < x < math.inf),
}


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen, and when to stop.

    Raises `InputError`, naming the field, for a value outside the range given with it.
    """

    max_new_tokens: int = 32
    """At least 1."""
    temperature: float = 0.0
    """At least 0 and finite; 0 takes the likeliest token, the lowest id on ties."""
    top_k: int = 0
    """Only the `top_k` likeliest tokens; 0 and -1 are off."""
    top_p: float = 1.0
    """From 0 to 1: the likeliest tokens that together are this probable, at least one."""
    min_p: float = 0.0
    """From 0 to 1: only tokens at least this probable, as a share of the likeliest one."""
    repetition_penalty: float = 1.0
    """Above 0 and finite: divides the positive logits of tokens seen, multiplies the others."""
    seed: int | None = None
    """From 0 to 2**64 - 1; None draws a new one each time."""
    stop: Sequence[str] = ()
    """Strings, none empty, that end the text; a lone string is one stop."""
    include_stop_str_in_output: bool = False
    """Whether the text ends with the stop string that was found, or before it."""

    def __post_init__(self) -> None:
        for name, (low, high) in _COUNTS.items():
            if name != "seed" or self.seed is not None:
                count = whole_number(getattr(self, name), name, low, high)
                object.__setattr__(self, name, count)
        for name, (wanted, holds) in _NUMBERS.items():
            object.__setattr__(self, name, _number(name, getattr(self, name), wanted, holds))
        object.__setattr__(self, "stop", _stops(self.stop))
        if not isinstance(include := cast(object, self.include_stop_str_in_output), bool):
            raise InputError(f"include_stop_str_in_output is {include!r}: expected True or False")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature < GREEDY_BELOW


def _number(name: str, value: object, wanted: str, holds: Callable[[float], bool]) -> float:
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if holds(number):
            return number
    raise InputError(f"{name} is {value!r}: expected a number {wanted}")


def _stops(value: object) -> tuple[str, ...]:
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise InputError(f"stop is {value!r}: expected a string or a list of strings")
    stops = tuple(cast(Sequence[object], given))
    if bad := [stop for stop in stops if not isinstance(stop, str) or stop == ""]:
        raise InputError(f"stop has {bad[0]!r}: expected strings of at least one character")
    return cast(tuple[str, ...], stops)
