"""The kit itself: what is wrong is found, and named."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.errors import InputError, TargetUnavailable
from lamina.targets.reference.target import ReferenceTarget
from lamina.testing import Case, cases, check, run, run_pass
from lamina.testing.comparison import difference
from lamina.testing.conformance import conformance_tests
from lamina.testing.sheet import Check, Sheet
from lamina.testing.stages import judge_pass
from lamina.testing.values import normal

NAN, INF = np.nan, np.inf


def _small(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N"], normal)
    sheet.compute("exp", nn.ExpOp(x))
    sheet.compute("neg", nn.NegOp(x))
    sheet.compute("shifted", nn.AddOp(x, sheet.fill(1.0, x)))


SMALL = Case("small", _small, (0, 3))


@dataclass(frozen=True)
class WrongTarget(ReferenceTarget):
    """Adds `error` to what it gives for `exp`, from three elements on."""

    name: ClassVar[str] = "wrong"
    error: float = 0.5

    def load(self, artifact: Any, weights: Mapping[str, Any]) -> Any:
        loaded = super().load(artifact, weights)

        class Wrong:
            inputs, outputs, signature = loaded.inputs, loaded.outputs, loaded.signature

            def __call__(_, *args: Any, **kwargs: Any) -> dict[str, Any]:
                results = loaded(*args, **kwargs)
                results["exp"][2:] += np.float32(self.error)
                return results

        return Wrong()


@dataclass(frozen=True)
class PoorTarget(ReferenceTarget):
    """Knows no exponential, and stumbles over additions."""

    name: ClassVar[str] = "poor"

    @property
    def accepts(self) -> frozenset[str]:
        return super().accepts - {"nn.exp"}

    def emit(self, ctx: Context, module: ModuleOp) -> Any:
        if any(isinstance(op, nn.AddOp) for op in module.walk()):
            raise IndexError("no such register")
        return super().emit(ctx, module)


@dataclass(frozen=True)
class FailingTarget(ReferenceTarget):
    """Compiles everything, and fails when it is called."""

    name: ClassVar[str] = "failing"

    def load(self, artifact: Any, weights: Mapping[str, Any]) -> Any:
        loaded = super().load(artifact, weights)

        class Failing:
            signature = loaded.signature

            def __call__(_, *args: Any, **kwargs: Any) -> dict[str, Any]:
                raise MemoryError("no room")

        return Failing()


@dataclass(frozen=True)
class AbsentTarget(ReferenceTarget):
    """Is not on this machine."""

    name: ClassVar[str] = "absent"

    def load(self, artifact: Any, weights: Mapping[str, Any]) -> Any:
        raise TargetUnavailable("there is no such device")


@dataclass(frozen=True)
class HalvePass(ModulePass):
    """Halves every constant, which it should not."""

    name = "halve"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in op.walk():
            if isinstance(each, nn.ConstantOp):
                each.value = FloatAttr(0.5 * each.value.value.data, f32)


@dataclass(frozen=True)
class StumblePass(ModulePass):
    """Fails whatever it is given."""

    name = "stumble"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("a name")


def test_a_wrong_result_is_a_failure_of_its_operation_at_its_size() -> None:
    report = run(WrongTarget(), [SMALL])
    assert list(report.failed) == ["small/exp"]
    assert report.failed["small/exp"].startswith("at N = 3 element [2] is")
    assert report.operations == {"nn.exp": (1, 0), "nn.neg": (1, 1), "nn.add": (1, 1)}


def test_what_is_within_the_tolerance_is_right() -> None:
    assert run(WrongTarget(error=1e-8), [SMALL]).passed == [
        "small/exp",
        "small/neg",
        "small/shifted",
    ]


def test_what_a_target_refuses_does_not_hide_the_rest() -> None:
    report = run(PoorTarget(), [SMALL])
    assert report.refused["small/exp"] == "poor has no rule for nn.exp (from node /exp)"
    assert "IndexError: no such register" in report.refused["small/shifted"]
    assert report.passed == ["small/neg"]


def test_a_call_that_fails_is_a_failure_of_every_check() -> None:
    report = run(FailingTarget(), [SMALL])
    assert set(report.failed.values()) == {"at N = 0 MemoryError: no room"}
    assert len(report.failed) == 3


def test_a_report_says_how_many_ran() -> None:
    report = run(PoorTarget(), [SMALL])
    assert str(report).endswith(
        "3 checks in 1 cases, 2 comparisons: 1 passed, 0 failed, 2 refused, 0 warnings"
    )


def test_a_check_raises_with_every_name() -> None:
    with pytest.raises(
        AssertionError, match=r"small/exp \(nn\.exp\): poor has no rule(.|\n)*small/shifted"
    ):
        check(PoorTarget(), SMALL)


def test_a_target_that_is_not_there_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="no such device"):
        conformance_tests(AbsentTarget())(SMALL)


def test_a_pass_that_changes_what_a_module_computes_fails() -> None:
    failed = [v.name for v in judge_pass(HalvePass(), SMALL).verdicts if not v.passed]
    assert failed == ["small/shifted"]


def test_a_pass_that_fails_is_named_with_its_error() -> None:
    outcome = judge_pass(StumblePass(), SMALL)
    assert [v.passed for v in outcome.verdicts] == [False] * 3
    assert all("KeyError: 'a name'" in str(v.failed) for v in outcome.verdicts)


def test_a_pass_that_changes_nothing_has_no_verdicts() -> None:
    assert judge_pass("fuse-attention", SMALL).verdicts == []


def test_the_score_of_a_pass_counts_what_it_changes() -> None:
    chosen = [SMALL, *(case for case in cases("ragged") if case.name == "attention-in-parts")]
    report = run_pass("fuse-attention", chosen)
    assert report.cases == 1
    assert set(report.passed) == {"attention-in-parts/attention"}


def test_cases_of_a_topic_are_some_of_all() -> None:
    every = [case.name for case in cases()]
    chosen = [case.name for case in cases("reductions", "aliases")]
    assert "scans" in chosen
    assert set(chosen) < set(every)


def test_an_unknown_topic_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no topic 'sorts' .*reductions"):
        list(cases("sorts"))


def test_names_of_cases_and_checks_are_unique() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    for case in cases():
        checks = [each.name for each in case.sheet().checks]
        assert len(set(checks)) == len(checks) > 0


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([1.0, NAN], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, NAN]),
        ([INF, 2.0], [-INF, 2.0]),
        ([INF, 2.0], [3e38, 2.0]),
        ([0.0, 2.0], [-0.0, 2.0]),
        ([1.0, 2.0], [1.0, 2.001]),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [1, 2]),
    ],
)
def test_a_difference_is_seen(expected: list[float], actual: list[Any]) -> None:
    dtype = np.int32 if isinstance(actual[-1], int) else np.float32
    strict = Check("y", "nn.exp", rtol=1e-4, atol=0.0, signed=True)
    assert difference(np.array(expected, np.float32), np.array(actual, dtype), strict) is not None


def test_nan_is_nan_and_a_zero_may_have_either_sign_where_that_is_said() -> None:
    expected = np.array([NAN, INF, 0.0, 100.0], np.float32)
    actual = np.array([-NAN, INF, -0.0, 100.001], np.float32)
    assert difference(expected, actual, Check("y", "nn.exp", 1e-4, 0.0, signed=False)) is None
