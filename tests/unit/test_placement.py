"""What a target cannot run: where it runs instead, what is copied, and that it may be refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from placed import TEXT, WEIGHTED, WEIGHTS, numbers, placed, right, scaled
from plan_builder import Plan, planned, verify
from xdsl.context import Context
from xdsl.ir import SSAValue

import lamina
from lamina import compiler
from lamina.dialects.plan import HOST, AllocOp, CopyOp, HostOp
from lamina.dialects.text import read_module
from lamina.errors import InputError, LoweringError, UnsupportedError
from lamina.passes.plan_copies import PlanCopiesPass
from lamina.plugins import manager
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.metal.target import MetalTarget
from lamina.targets.plans.dispatches import CopyDispatch, Dispatch, HostDispatch, dispatches_of
from lamina.targets.plans.plan_encoding import encode_plan
from lamina.targets.plans.plan_tables import ARENA, FIRST_ARRAY
from lamina.targets.plans.plan_tables import HOST as HOST_BASE
from lamina.targets.reference.executable import ReferenceExecutable

Command = Callable[..., tuple[int, str, str]]

PLANS = Path(__file__).parents[1] / "cpu" / "plans"
TARGETS = ("webgpu", "metal")

quietly = pytest.mark.filterwarnings("ignore:.*by its NumPy meaning")


@quietly
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_between_kernels_is_copied_there_and_back(target: str) -> None:
    module = compiler.lower(placed(), target)
    assert sum(isinstance(op, CopyOp) for op in module.walk()) == 2
    assert sum(isinstance(op, HostOp) for op in module.walk()) == 1


@quietly
def test_weights_are_on_both_sides_and_never_copied() -> None:
    module = compiler.lower(placed(WEIGHTED), "metal")
    verify(module)
    assert sum(isinstance(op, CopyOp) for op in module.walk()) == 2
    exe = ReferenceExecutable(module, WEIGHTS)
    np.testing.assert_array_equal(exe(numbers(5))["y"], scaled(numbers(5)))


@quietly
@pytest.mark.parametrize("number", [0, 1])
def test_a_plan_without_one_of_its_copies_is_refused(number: int) -> None:
    module = compiler.lower(placed(), "metal")
    verify(module)
    [op for op in module.walk() if isinstance(op, CopyOp)][number].detach()
    with pytest.raises(LoweringError, match=r"reads .*, but nothing wrote all of it"):
        verify(module)


@quietly
def test_the_reference_runs_copies() -> None:
    exe = ReferenceExecutable(compiler.lower(placed(), "metal"), {})
    np.testing.assert_array_equal(exe(numbers(5))["y"], right(numbers(5)))


@quietly
def test_copies_are_among_the_facts_of_an_artifact() -> None:
    target = MetalTarget()
    facts = target.emit(manager.context(), compiler.lower(placed(), target)).facts
    assert facts["copies"] == [
        {"to": "host", "bytes": "256*T"},
        {"to": "device", "bytes": "256*T"},
    ]
    assert len(facts["host_calls"]) == 1


@quietly
def test_inspect_counts_copies(command: Command, tmp_path: Path) -> None:
    (tmp_path / "placed.mlir").write_text(TEXT)
    asked = ("inspect", tmp_path / "placed.mlir", "--target", "webgpu")
    (row,) = json.loads(command(*asked, "--json")[1])["plan"]["launches"]
    assert (row["copies"], row["copied_bytes"]) == (2, "512*T")
    assert "bytes copied" in command(*asked)[1]


@quietly
def test_a_compiled_file_says_what_it_copies(command: Command, tmp_path: Path) -> None:
    (tmp_path / "placed.mlir").write_text(TEXT)
    made = tmp_path / "placed.lamina"
    assert command("compile", tmp_path / "placed.mlir", "-o", made, "--target", "webgpu")[0] == 0
    shown = command("inspect", made)[1]
    assert "256*T bytes to the host, 256*T bytes to the device" in shown


def test_what_runs_on_the_host_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="nn.cast, nn.mul runs by its NumPy meaning.* no f64"):
        compiler.lower(placed(), "metal")


@pytest.mark.parametrize("target", TARGETS)
def test_a_fallback_that_is_an_error_names_what_would_run_elsewhere(target: str) -> None:
    said = r"nn.cast, nn.mul \(from node /widen, /square, /narrow\): the target has no f64"
    with pytest.raises(UnsupportedError, match=said):
        lamina.compile(placed(), target=f"{target}{{fallback=error}}")


def test_the_command_line_refuses_with_one_sentence(command: Command, tmp_path: Path) -> None:
    (tmp_path / "placed.mlir").write_text(TEXT)
    asked = ("run", tmp_path / "placed.mlir", "--random", "--fallback", "error", "--target")
    for target in ("metal", "metal{kv=f16}"):
        code, out, err = command(*asked, target)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "/widen, /square, /narrow" in err


def test_a_target_without_the_option_and_another_fallback_are_refused(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "placed.mlir").write_text(TEXT)
    asked = ("run", tmp_path / "placed.mlir", "--random", "--fallback")
    assert "the target cpu has no option 'fallback'" in command(*asked, "error")[2]
    assert "--fallback never: expected host or error" in command(*asked, "never")[2]
    with pytest.raises(InputError, match="lower-groups: fallback is 'x', expected host or error"):
        MetalTarget(fallback="x").passes()


def test_dispatches_say_what_is_copied_where() -> None:
    module = read_module(manager.context(), PLANS / "copied.mlir")
    found = dispatches_of(encode_plan(module, 0, []), {"T": 5}, 1)
    tasks = [each for each in found.tasks if not isinstance(each, Dispatch)]
    copies = [each for each in tasks if isinstance(each, CopyDispatch)]
    assert found.host_arena == 192
    assert [(each.source, each.target) for each in copies] == [
        ((ARENA, 0), (HOST_BASE, 0)),
        ((FIRST_ARRAY + 1, 0), (HOST_BASE, 64)),
        ((HOST_BASE, 128), (ARENA, 64)),
    ]
    assert {each.size for each in copies} == {20}
    assert any(isinstance(each, HostDispatch) for each in tasks)


def test_the_cpu_has_no_other_memory_and_a_device_no_call_on_its_own() -> None:
    module = read_module(manager.context(), PLANS / "copied.mlir")
    with pytest.raises(LoweringError, match="plan-copies is not for it"):
        CpuTarget().emit(manager.context(), module)
    module = read_module(manager.context(), PLANS / "hosted.mlir")
    with pytest.raises(LoweringError, match="@take runs on the host and is given memory of the"):
        MetalTarget().emit(manager.context(), module)


@pytest.fixture
def plan() -> tuple[Plan, SSAValue, SSAValue, SSAValue]:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    host = plan.add(AllocOp(x.type, HOST))
    return plan, x, y, host


def test_memory_of_the_host_is_an_arena_of_its_own() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    a, b = plan.alloc("T"), plan.alloc("T")
    plan.copy(x, a)
    plan.add(HostOp("h", [a, b], ["read", "write"]))
    plan.copy(b, y)
    module = plan.module()
    PlanCopiesPass().apply(Context(), module)
    found = planned(module)
    verify(found)
    arenas = [line for line in str(found).splitlines() if "plan.arena" in line]
    assert [("host" in line) for line in arenas] == [False, True]
    assert "64*ceildiv(4*T, 64)" in arenas[0]
    assert "128*ceildiv(4*T, 64)" in arenas[1]


def test_a_kernel_on_memory_of_the_host_is_refused(plan) -> None:
    builder, x, y, host = plan
    builder.add(CopyOp(x, host))
    builder.copy(host, y)
    with pytest.raises(LoweringError, match=r"the kernel @n0 takes .*, memory of the host"):
        verify(builder.module())


def test_a_copy_within_one_memory_is_refused(plan) -> None:
    builder, x, y, _ = plan
    builder.add(CopyOp(x, y))
    with pytest.raises(LoweringError, match=r"plan.copy of .*: both are in the same memory"):
        verify(builder.module())


def test_a_copy_of_what_nobody_wrote_is_refused(plan) -> None:
    builder, _, y, host = plan
    builder.add(CopyOp(host, y))
    with pytest.raises(LoweringError, match=r"plan.copy reads .*, but nothing wrote all of it"):
        verify(builder.module())
