import pytest

from lamina.errors import InputError, LaminaError
from lamina.measure.bounds import Bound, check_bounds
from lamina.measure.kernel_table import KernelRow, StepTable
from lamina.measure.rounds import PhaseResult
from lamina.measure.subjects import Phase


def result(name: str, *rows: KernelRow) -> PhaseResult:
    """A phase of 100 tokens in 2 s."""
    table = StepTable(1, 2.0, rows, 0.0, 0.0, 0.0, 0.0, 0)
    return PhaseResult(Phase(name, 100), 2.0, {}, table, None, None)


def linear(part: float | None, name: str = "linear") -> KernelRow:
    return KernelRow(name, "", 1, 1.0, 0.5, "8-bit", 1e9, part)


RESULTS = [
    result("prefill", linear(0.4), linear(None, "attention")),
    result("decode", linear(0.8)),
]


@pytest.mark.parametrize(
    "text",
    ["decode>=50", "decode >= 49.5", "linear>=40", "decode/linear>=80", "prefill/linear>=0"],
)
def test_a_bound_that_is_met_is_no_error(text: str) -> None:
    check_bounds([Bound.of(text)], RESULTS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decode>=50.5", "--assert decode>=50.5: it is 50 tokens/s"),
        ("linear>=41", "--assert linear>=41: it is 40 % of its limit"),
        ("decode/linear>=81", "it is 80 % of its limit"),
        ("attention>=1", "nothing says what attention does, so it has no limit"),
        ("linaer>=1", "there is no linaer: expected one of prefill, decode, linear, attention"),
    ],
)
def test_a_bound_that_is_missed_is_a_sentence(text: str, message: str) -> None:
    with pytest.raises(LaminaError) as caught:
        check_bounds([Bound.of(text)], RESULTS)
    assert message in str(caught.value)


def test_all_missed_bounds_are_said_at_once() -> None:
    with pytest.raises(LaminaError, match=r"decode>=99: .*; --assert prefill>=99: "):
        check_bounds([Bound.of("decode>=99"), Bound.of("prefill>=99")], RESULTS)


@pytest.mark.parametrize(
    "text", ["", "decode", "decode>=", ">=5", "decode>=x", "decode<=5", "a>=1e9"]
)
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected NAME>=NUMBER"):
        Bound.of(text)
