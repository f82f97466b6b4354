"""Executables whose elements are texts: callers give and get str, the code computes with codes."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from lamina.errors import InputError
from lamina.targets.base import Array, Binding, Executable, Signature, by_name
from lamina.targets.text_table import TEXT_TABLE
from lamina.targets.timeline import Timeline, Traced


def with_texts(executable: Executable) -> Executable:
    """Return an executable that takes and gives texts as str, the same if it has none."""
    if executable.signature.texts is None:
        return executable
    traced = isinstance(executable, Traced)
    return TracedTextExecutable(executable) if traced else TextExecutable(executable)


def without_texts(executable: Executable) -> Executable:
    """Return what computes with codes in an executable that `with_texts` gave."""
    return executable.inner if isinstance(executable, TextExecutable) else executable


class TextExecutable(Executable):
    """Any target's executable, called with arrays of str in place of codes."""

    def __init__(self, executable: Executable) -> None:
        """Take what computes with codes; the texts of its constants stay known while this lives."""
        self.inner = executable
        self._signature = executable.signature
        self._pinned = TEXT_TABLE.pin(self._signature.texts or ())

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and states."""
        return self._signature

    def __call__(self, *args: Array, **kwargs: Array) -> dict[str, Array]:
        """Run once: inputs by position or name, states by name (updated in place).

        Texts are arrays of str of any of NumPy's kinds; outputs are arrays of objects. InputError
        says what else is wrong with an argument, as that of the executable does.
        """
        given = by_name(self._signature, args, kwargs)
        with TEXT_TABLE.call():
            arrays: list[Array] = [
                TEXT_TABLE.encode(text_array(each, given.pop(each.name)))
                if each.text
                else given.pop(each.name)
                for each in self._signature.inputs
            ]
            found = self.inner(*arrays, **given)
            for each in self._signature.outputs:
                if each.text:
                    found[each.name] = TEXT_TABLE.decode(found[each.name])
        return found


class TracedTextExecutable(TextExecutable):
    """One whose steps can be noted."""

    @property
    def timeline(self) -> Timeline | None:
        """Where steps are noted, if they are; see `lamina.targets.timeline.trace`."""
        return cast("Traced", self.inner).timeline

    @timeline.setter
    def timeline(self, timeline: Timeline | None) -> None:
        cast("Traced", self.inner).timeline = timeline


def text_array(binding: Binding, value: object) -> npt.NDArray[np.object_]:
    """Return what an input of texts is given as an array of str; InputError if it is not that."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise _wrong(binding, "what is no array") from None
    if not array.size and not isinstance(value, np.ndarray):
        array = array.astype(np.object_)
    if array.dtype.kind not in "UOT":
        raise _wrong(binding, str(array.dtype))
    found = np.empty(array.size, np.object_)
    for n, each in enumerate(array.ravel().tolist()):
        if not isinstance(each, str):
            raise _wrong(binding, f"{type(each).__name__} among them")
        found[n] = str(each)
    return found.reshape(array.shape)


def _wrong(binding: Binding, got: str) -> InputError:
    return InputError(f"input {binding.name!r}: expected texts (an array of str), got {got}")
