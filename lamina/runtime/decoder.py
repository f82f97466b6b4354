"""What a decoder's signature says to whoever makes batches for it."""

from typing import Final

from lamina.errors import InputError
from lamina.runtime.batch import ROLES
from lamina.runtime.pools import positions_of
from lamina.targets.base import Signature

LOGITS: Final = "logits"
"""The output that a decoder has."""


def is_decoder(signature: Signature) -> bool:
    """Return whether the inputs are those of a ragged batch."""
    return sorted(binding.role for binding in signature.inputs) == sorted(ROLES)


def names_by_role(signature: Signature) -> list[tuple[str, str]]:
    """Return the pairs (role, name) of the inputs; `InputError` if it is no decoder."""
    if not is_decoder(signature):
        listed = ", ".join(binding.name for binding in signature.inputs) or "nothing"
        raise InputError(
            f"the model writes no text: expected a decoder that takes {', '.join(ROLES)}, "
            f"got one that takes {listed}"
        )
    return [(binding.role, binding.name) for binding in signature.inputs]


def vocabulary_size(signature: Signature) -> int:
    """Return how many logits a row has; `InputError` if the outputs have none."""
    for binding in signature.outputs:
        if binding.name == LOGITS and len(binding.dims) == 2 and binding.dims[1].constant:
            return binding.dims[1].constant
    listed = ", ".join(binding.name for binding in signature.outputs) or "nothing"
    raise InputError(f"the model writes no text: expected {LOGITS} [R, n], got {listed}")


def page_size(signature: Signature) -> int:
    """Return how many positions a page has; `InputError` if the pools differ."""
    found = {positions_of(pool) for pool in signature.states}
    if len(found) != 1:
        raise InputError(f"the pools have pages of {sorted(found)} positions: expected one size")
    return found.pop()


def query_block(signature: Signature) -> int:
    """Return how many tokens an entry of the work list has at most."""
    return signature.attributes.get("block", page_size(signature))
