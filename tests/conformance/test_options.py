"""What the options of the CPU target change, on the cases that they are about."""

import pytest

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
