"""A soft cap, found by the plugin's entry point, on every target that there is."""

import pytest
from lamina_softcap.dialect import SoftcapOp
from lamina_softcap.tile_rule import tile_of
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import SSAValue

from lamina.cli import main
from lamina.compiler import lower
from lamina.dialects import nn
from lamina.dialects.text import parse_module
from lamina.dialects.tile import DotOp, KernelOp
from lamina.passes.known import KNOWN
from lamina.plugins import manager
from lamina.testing import Case, check
from lamina.testing.sheet import Sheet
from lamina.testing.stages import judge_pass
from lamina.testing.suites.products import numbers
from lamina.testing.values import edges, normal

CAP = 3.0


def parts(sheet: Sheet, x: SSAValue, *, multiplied: bool) -> SSAValue:
    inner = nn.MulOp if multiplied else nn.DivOp
    scaled = sheet.add(inner(x, sheet.fill(1.0 / CAP if multiplied else CAP, x)))
    return sheet.add(nn.MulOp(sheet.fill(CAP, x), sheet.add(nn.TanhOp(scaled))))


def of_types(sheet: Sheet) -> None:
    for kind in (f32, f16, bf16, f64):
        for draw in (edges, normal):
            x = sheet.given(f"{draw.__name__}_{kind}", kind, ["N"], draw)
            close = {"rtol": 3e-6, "atol": 1e-44} if kind == f32 else {}
            sheet.compute(f"softcap_{draw.__name__}_{kind}", SoftcapOp(x, CAP), **close)


def in_parts(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 48], normal)
    logits = sheet.linear(x, sheet.stored("w", numbers(1, 64, 48)))
    sheet.check("divided", parts(sheet, logits, multiplied=False), atol=1e-4, of="acme.softcap")
    more = sheet.linear(x, sheet.stored("v", numbers(2, 64, 48)))
    sheet.check("multiplied", parts(sheet, more, multiplied=True), atol=1e-4, of="acme.softcap")


CASES = (Case("types", of_types), Case("parts", in_parts))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore:.*of f64 has no")
def test_it_computes_what_its_meaning_says(target: str, case: Case) -> None:
    check(target, case)


@pytest.mark.parametrize(
    ("name", "case"), [("decompose-composites", CASES[0]), ("fuse-softcap", CASES[1])]
)
def test_a_pass_changes_nothing_that_a_module_computes(name: str, case: Case) -> None:
    verdicts = judge_pass(name, case).verdicts
    assert verdicts
    assert [verdict.failed for verdict in verdicts if not verdict.passed] == []


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.ops if isinstance(op, KernelOp)]


def test_a_soft_cap_is_computed_in_the_kernel_of_the_product_before_it() -> None:
    found = kernels(lower(CASES[1].sheet().module, "cpu"))
    assert found
    assert all(any(isinstance(op, DotOp) for op in kernel.walk()) for kernel in found)


def size(module: ModuleOp) -> int:
    return sum(1 for kernel in kernels(module) for _ in kernel.walk())


def test_the_tile_rule_takes_fewer_operations_than_the_decomposition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = CASES[1].sheet().module
    assert tile_of in manager.tile_rules().values()
    ruled = size(lower(module, "cpu"))
    without = {kind: rule for kind, rule in manager.tile_rules().items() if kind is not SoftcapOp}
    monkeypatch.setattr(KNOWN, "tile_rules", lambda: without)
    assert ruled < 0.8 * size(lower(module, "cpu"))


def test_its_text_comes_back() -> None:
    module = CASES[0].sheet().module
    again = parse_module(manager.context(), str(module), "the test")
    assert again.is_structurally_equivalent(module)


def test_the_default_pipeline_begins_with_the_pass() -> None:
    assert manager.target("cpu")().passes()[0].name == "fuse-softcap"


def test_the_command_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["ops", "--json"])
    assert "acme.softcap" in capsys.readouterr().out
