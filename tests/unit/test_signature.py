import pytest

from lamina.dialects.text import parse_module
from lamina.errors import FormatError
from lamina.plugins import manager
from lamina.targets.signature import signature_of

T = "tensor<4xf32>"


@pytest.mark.parametrize("role", ["input", "weight"])
def test_two_arguments_of_one_name_are_refused(role: str) -> None:
    named = f'{{lamina.{role} = "x"}}'
    text = (
        f"func.func @forward(%x: {T} {named}, %z: {T} {named}) -> "
        f'({T} {{lamina.output = "y"}}) {{ func.return %x : {T} }}'
    )
    module = parse_module(manager.context(), text, "here")
    with pytest.raises(FormatError, match=f"two values are lamina.{role} 'x'"):
        signature_of(module)
