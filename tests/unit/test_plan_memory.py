from itertools import pairwise

import pytest
from plan_builder import Plan, move, planned, simulate, verify, views
from xdsl.ir import Block, Region, SSAValue

from lamina.dialects.dims import Dim
from lamina.dialects.plan import AllocOp, ArenaOp, SwitchOp, ViewOp
from lamina.errors import LoweringError
from lamina.passes.plan_memory import arena_report


def chain() -> tuple[Plan, list[SSAValue]]:
    """x -> a -> b -> c -> y, where c reads a alias too; every buffer has T numbers."""
    plan = Plan()
    x, y = plan.arg("input", "16*T"), plan.arg("output", "16*T")
    a, b, c = (plan.alloc("16*T", name) for name in "abc")
    alias = plan.view(a, "16*T")
    plan.copy(x, a)
    plan.copy(a, b)
    plan.launch(([alias, b, c], ["read", "read", "write"], []))
    plan.copy(c, y)
    return plan, [x, y, a, b, c]


def test_what_the_planner_makes_is_accepted_and_computes_the_same() -> None:
    module = chain()[0].module()
    result = planned(module)
    verify(result)
    assert simulate(result, {"T": 3}) == simulate(module, {"T": 3})
    assert not any(isinstance(op, AllocOp) for op in result.walk())


def test_overlapping_live_buffers_are_refused() -> None:
    result = planned(chain()[0].module())
    move(views(result)["b"], views(result)["a"].offset.data)
    with pytest.raises(
        LoweringError, match=r"@n1 writes %b .* while @n1 reads %a .*: they may overlap"
    ):
        verify(result)


def test_a_read_after_the_memory_was_given_away_is_refused() -> None:
    plan, (_x, y, _a, b, _c) = chain()
    plan.launch(([b, y], ["read", "update"], []))
    result = planned(plan.module())
    verify(result)
    move(views(result)["c"], views(result)["b"].offset.data)
    with pytest.raises(LoweringError, match=r"%b .*they may overlap"):
        verify(result)
    move(views(result)["c"], views(result)["a"].offset.data)
    move(views(result)["b"], "64*T")
    with pytest.raises(LoweringError, match="they may overlap"):
        verify(result)


def test_a_read_of_what_was_never_written_is_refused() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    a = plan.alloc("T", "a")
    plan.launch(([x, a, y], ["read", "read", "write"], []))
    with pytest.raises(LoweringError, match="@n0 reads %a, but nothing wrote all of it"):
        verify(plan.module())


def test_an_alias_whose_memory_was_freed_too_early_is_refused() -> None:
    plan = Plan()
    x, y = plan.arg("input", "16*T"), plan.arg("output", "16*T")
    a, b = plan.alloc("16*T", "a"), plan.alloc("16*T", "b")
    alias = plan.view(a, "16*T")
    alias.name_hint = "alias"
    plan.copy(x, a)
    plan.copy(x, b)
    plan.launch(([alias, b, y], ["read", "read", "write"], []))
    result = planned(plan.module())
    verify(result)
    move(views(result)["b"], views(result)["a"].offset.data)
    with pytest.raises(LoweringError, match="@n2 reads %alias, but @n1 wrote %b over it"):
        verify(result)


def test_a_size_that_is_too_small_is_refused() -> None:
    result = planned(chain()[0].module())
    (arena,) = (op for op in result.walk() if isinstance(op, ArenaOp))
    small = ArenaOp(Dim.of("64*T"))
    arena.y.replace_all_uses_with(small.y)
    assert arena.parent is not None
    arena.parent.insert_op_before(small, arena)
    with pytest.raises(
        LoweringError,
        match=r"cannot prove that %\w, 64\*T bytes at .*, lies within the 64\*T bytes",
    ):
        verify(result)


def test_an_offset_by_too_small_a_size_is_refused() -> None:
    result = planned(chain()[0].module())
    offsets = {name: view.offset.data for name, view in views(result).items()}
    assert sorted(offsets.values()) == ["0", "128*T", "64*T"]
    move(
        next(view for view in views(result).values() if view.offset.data == "64*T"),
        "64*floordiv(T, 2)",
    )
    with pytest.raises(LoweringError, match="they may overlap"):
        verify(result)


def test_an_offset_that_is_not_aligned_is_refused() -> None:
    result = planned(chain()[0].module())
    move(views(result)["a"], "32*T")
    with pytest.raises(LoweringError, match=r"the offset 32\*T of %a is no multiple of 64 bytes"):
        verify(result)


def test_kernels_of_one_launch_may_not_touch_what_one_writes() -> None:
    plan = Plan()
    x, y, z = (plan.arg(role, "T") for role in ("input", "output", "output"))
    plan.launch(([x, y], ["read", "write"], []), ([y, z], ["read", "write"], []))
    with pytest.raises(LoweringError, match=r"@n0 writes %output1 .* while @n1 reads %output1"):
        verify(plan.module())


def test_an_input_may_not_be_written_and_an_output_must_be() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    with pytest.raises(LoweringError, match="the output %output1 is not wholly written"):
        verify(plan.module())
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    plan.launch(([x, y], ["update", "write"], []))
    with pytest.raises(LoweringError, match="@n0 writes the input %input0"):
        verify(plan.module())


def test_an_output_written_in_one_branch_only_is_refused() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    with plan.branch() as one:
        plan.copy(x, y)
    plan.add(SwitchOp(Dim.of("T"), [1], [Region(one), Region(Block())]))
    with pytest.raises(LoweringError, match="the output %output1 is not wholly written"):
        verify(plan.module())


def test_what_one_branch_does_in_place_another_may_not() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    a, b = plan.alloc("T"), plan.alloc("T")
    plan.copy(x, a)
    with plan.branch() as one:
        plan.launch(([a, b], ["read", "write"], [(0, 1)]))
    with plan.branch() as other:
        plan.launch(([x, b], ["read", "write"], []), ([a, y], ["read", "write"], []))
    plan.add(SwitchOp(Dim.of("T"), [1], [Region(one), Region(other)]))
    plan.copy(b, y)
    verify(planned(plan.module()))


def test_a_result_takes_the_place_of_an_operand_that_dies() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    values = [plan.alloc("T") for _ in range(4)]
    plan.copy(x, values[0])
    for a, b in pairwise(values):
        plan.launch(([a, b], ["read", "write"], [(0, 1)]))
    plan.copy(values[-1], y)
    result = planned(plan.module())
    verify(result)
    assert arena_report(result, {"T": 16}) == {"arena": 64, "sum": 256, "largest_live": 128}


def test_x_minus_x_plus_one_is_not_done_in_place_of_an_x_still_needed() -> None:
    plan = Plan()
    x, y = plan.arg("input", "1"), plan.arg("output", "1")
    a, b, c = (plan.alloc("1", name) for name in "abc")
    plan.copy(x, a)
    plan.launch(([a, b], ["read", "write"], [(0, 1)]))
    plan.launch(([a, b, c], ["read", "read", "write"], [(0, 2), (1, 2)]))
    plan.copy(c, y)
    result = planned(plan.module())
    verify(result)
    offsets = {name: view.offset.data for name, view in views(result).items()}
    assert offsets["a"] != offsets["b"]
    assert offsets["c"] in (offsets["a"], offsets["b"])


def test_storage_stays_while_a_view_of_it_lives() -> None:
    plan = Plan()
    x, y = plan.arg("input", "40"), plan.arg("output", "40")
    src, right = plan.alloc("40", "src"), plan.alloc("40", "right")
    plan.copy(x, src)
    left = plan.view(plan.view(src, "40"), "40")
    plan.copy(x, right)
    plan.launch(([left, right, y], ["read", "read", "write"], [(0, 2)]))
    result = planned(plan.module())
    verify(result)
    assert views(result)["src"].offset.data != views(result)["right"].offset.data


def test_two_outputs_may_be_one_value_and_an_output_an_input() -> None:
    plan = Plan()
    x, *outputs = (plan.arg(role, "T") for role in ("input", "output", "output", "output"))
    a = plan.alloc("T", "a")
    plan.copy(x, a)
    plan.launch(
        *[
            ([source, y], ["read", "write"], [])
            for source, y in zip((a, a, x), outputs, strict=True)
        ]
    )
    module = plan.module()
    result = planned(module)
    verify(result)
    assert simulate(result, {"T": 5}) == simulate(module, {"T": 5})


def test_slices_of_a_result_make_the_whole() -> None:
    plan = Plan()
    sizes = (("input", "80*T"), ("output", "64*T"), ("output", "16*T"))
    x, y, z = (plan.arg(role, size) for role, size in sizes)
    a = plan.alloc("80*T", "a")
    head, tail = plan.view(a, "64*T"), plan.view(a, "16*T", "256*T")
    plan.launch(([x, head], ["read", "write"], []), ([x, tail], ["read", "write"], []))
    plan.launch(([a, y], ["read", "write"], []), ([tail, z], ["read", "write"], []))
    module = plan.module()
    verify(planned(module))
    assert len({str(planned(module)) for _ in range(3)}) == 1


def test_branches_share_their_memory() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    branches: list[Region] = []
    for _ in range(2):
        with plan.branch() as block:
            values = [plan.alloc("16*T") for _ in range(2)]
            plan.launch(([x, *values], ["read", "write", "write"], []))
            plan.launch(([*values, y], ["read", "read", "write"], []))
        branches.append(Region(block))
    plan.add(SwitchOp(Dim.of("T"), [4], branches))
    result = planned(plan.module())
    verify(result)
    assert arena_report(result, {"T": 1}) == {"arena": 128, "sum": 128, "largest_live": 128}


def test_a_buffer_that_nothing_touches_takes_no_memory() -> None:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "T")
    plan.view(plan.alloc("T"), "T")
    plan.copy(x, y)
    assert not any(isinstance(op, ArenaOp | ViewOp) for op in planned(plan.module()).walk())


def test_offsets_of_buffers_of_many_symbols_stay_sums() -> None:
    plan = Plan()
    last, y = plan.arg("input", "T"), plan.arg("output", "T")
    for i in range(60):
        last, before = plan.alloc(f"{16 * (i % 5 + 1)}*N{i % 12}", f"b{i}"), last
        plan.launch(([before, last], ["read", "write"], []))
    plan.copy(last, y)
    result = planned(plan.module())
    verify(result)
    offsets = [Dim.of(view.offset.data) for view in views(result).values()]
    assert len(offsets) == 60
    assert max(len(offset.terms) for offset in offsets) <= 12
    assert not any("max(max" in str(offset) for offset in offsets)


def test_rooms_of_sizes_that_are_not_plainly_positive_hold_them() -> None:
    half = "floordiv(T - 1, 2)"
    sizes = [f"{48 * k}*R*{half} + {48 * k}*R" for k in (9, 5, 24, 16)]
    sizes += [f"{k}*R*floordiv({half}, 2) + {k}*R" for k in (640, 96, 240)]
    plan = Plan()
    last, y = plan.arg("input", "T*R"), plan.arg("output", "T*R")
    for i in range(40):
        last, before = plan.alloc(sizes[i % 7], f"b{i}"), last
        plan.launch(([before, last], ["read", "write"], []))
    plan.copy(last, y)
    module = plan.module()
    result = planned(module)
    verify(result)
    assert simulate(result, {"T": 9, "R": 2}) == simulate(module, {"T": 9, "R": 2})
