"""What the options of the CPU target change, on the cases that they are about."""

import re

import pytest

from lamina.compiler import lower
from lamina.targets.cpu.emission import kernel_listings
from lamina.targets.cpu.features import detect, levels
from lamina.testing import cases
from lamina.testing.conformance import check_target

ABOUT = {
    'cpu{kv="f16"}': ("pages", "page-attention", "attention-in-parts", "llama"),
    'cpu{activations="f32"}': ("blocks-q4_0", "blocks-q8_0", "gated-blocks"),
    'cpu{features="generic"}': ("arithmetic-f16", "casts-bf16", "missing-numbers", "blocks-q5_1"),
}
CASES = {case.name: case for case in cases()}
CHOSEN = [(spec, name) for spec, names in ABOUT.items() for name in names]


@pytest.mark.parametrize(("spec", "name"), CHOSEN)
def test_a_target_with_options_computes_what_the_reference_computes(spec: str, name: str) -> None:
    check_target(spec, CASES[name])


@pytest.mark.parametrize(
    ("level", "within", "above"),
    [("avx2", r"vpmaddwd.*ymm", r"zmm|%k\d|vpdpbusd"), ("generic", r"xmm", r"[yz]mm|^\s+v[a-z]")],
)
def test_a_level_uses_no_instruction_above_it(level: str, within: str, above: str) -> None:
    if not {level, "avx2"} <= {*levels()}:
        pytest.skip("this machine has no AVX2")
    module = lower(CASES["gated-blocks"].sheet().module, f"cpu{{features={level}}}")
    texts = kernel_listings(module, detect(level))
    code = "".join(text for name, text in texts.items() if name.endswith(".s"))
    assert re.search(within, code)
    assert not re.search(above, code, re.MULTILINE)
