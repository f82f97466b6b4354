"""What somebody expects of a measurement: `decode>=200`, `linear_4_add>=80`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from lamina.errors import InputError, LaminaError
from lamina.measure.rounds import PhaseResult

_BOUND: Final = re.compile(r"(?P<name>[^<>=]+?)\s*>=\s*(?P<least>\d{1,15}(\.\d{1,15})?)")


@dataclass(frozen=True)
class Bound:
    """The least that `name` may come to: a phase's tokens a second, a kernel's % of its limit.

    A kernel's name alone means every phase that has it; `prefill/linear` just the one.
    """

    name: str
    least: float

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the bound that `NAME>=X` says; `InputError` if it says none."""
        found = _BOUND.fullmatch(text.strip())
        if found is None:
            raise InputError(f"--assert {text}: expected NAME>=NUMBER, as in decode>=100")
        return cls(found["name"].strip(), float(found["least"]))


def check_bounds(bounds: Sequence[Bound], results: Sequence[PhaseResult]) -> None:
    """Raise `LaminaError` saying every bound that is missed, or that nothing can be held to."""
    values = _values(results)
    faults = [fault for bound in bounds if (fault := _fault(bound, values))]
    if faults:
        raise LaminaError("; ".join(faults))


def _fault(bound: Bound, values: Mapping[str, tuple[float | None, str]]) -> str | None:
    said = f"--assert {bound.name}>={bound.least:g}"
    if bound.name not in values:
        plain = [name for name in values if "/" not in name]
        return f"{said}: there is no {bound.name}: expected one of {', '.join(plain)}"
    value, unit = values[bound.name]
    if value is None:
        return f"{said}: nothing says what {bound.name} does, so it has no limit"
    return None if value >= bound.least else f"{said}: it is {value:.4g} {unit}"


def _values(results: Sequence[PhaseResult]) -> dict[str, tuple[float | None, str]]:
    """Return what each name came to, and in what unit."""
    values: dict[str, tuple[float | None, str]] = {
        each.phase.name: (each.rate, "tokens/s" if each.phase.tokens else "runs/s")
        for each in results
    }
    for each in results:
        for row in each.table.kernels if each.table else ():
            part = None if row.of_limit is None else row.of_limit * 100
            found = (part, "% of its limit")
            values[f"{each.phase.name}/{row.kernel}"] = found
            values.setdefault(row.kernel, found)
            least = values[row.kernel][0]
            if part is not None and (least is None or part < least):
                values[row.kernel] = found
    return values
