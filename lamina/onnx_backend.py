"""Lamina as an `onnx.backend.base.Backend`, for anyone's conformance run.

    import onnx.backend.test, lamina.onnx_backend
    tests = onnx.backend.test.BackendTest(lamina.onnx_backend, __name__)

The backend counts which models ran compiled, and which needed NumPy meanings; it prints the
counts when the process ends.
"""

from __future__ import annotations

import atexit
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
from onnx.backend.base import Backend, BackendRep, namedtupledict

from lamina import knobs
from lamina.compiler import compile as compile_model
from lamina.errors import LaminaError
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.kinds import FLOAT, KINDS, Kind
from lamina.frontend.onnx.model_file import loaded_form, open_onnx, stored_form
from lamina.targets.base import Executable

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = npt.NDArray[Any]

COUNTS: Final[Counter[str]] = Counter()
"""How many models were prepared: `compiled`, `by meaning` or `failed`."""


class LaminaRep(BackendRep):
    """A compiled model."""

    def __init__(self, executable: Executable, outputs: Mapping[str, Kind]) -> None:
        """Take what runs, and its outputs in order with the kinds of their elements."""
        self.executable, self._outputs = executable, outputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run once, with inputs in order or by name; return the outputs in order."""
        given: list[Any]
        if isinstance(inputs, Mapping):
            named = cast("Mapping[str, Any]", inputs)
            given = [named[binding.name] for binding in self.executable.inputs]
        elif isinstance(inputs, Sequence):
            given = list(cast("Sequence[Any]", inputs))
        else:
            given = [inputs]
        arrays = (stored_form(np.asarray(x, order="C")) for x in given)
        found = self.executable(*arrays)
        return tuple(loaded_form(found[name], kind) for name, kind in self._outputs.items())


class LaminaBackend(Backend):
    """Compiles models for the CPU, or for the target that `LAMINA_ONNX_TARGET` names."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Tell whether a model can be imported; it is not compiled for that, nor counted."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _ = model_of(open_onnx(model)).module
        except LaminaError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> LaminaRep:
        """Compile a model. Raises `FormatError` or `UnsupportedError` naming a node."""
        target = knobs.onnx_target()
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                executable = compile_model(model_of(open_onnx(model)), target)
        except Exception:
            COUNTS["failed"] += 1
            raise
        hosted = any("by its NumPy meaning" in str(each.message) for each in said)
        COUNTS["by meaning" if hosted else "compiled"] += 1
        outputs = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
        kinds = {name: KINDS.get(number, FLOAT) for name, number in outputs.items()}
        return LaminaRep(executable, kinds)

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one node on inputs whose types its graph takes."""
        import onnx
        from onnx import helper

        arrays = [np.asarray(x) for x in inputs]
        names = [name for name in node.input if name]
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape)
            )
            for name, x in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, outputs)
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        imports = [helper.make_opsetid("", opset)]
        imports += [helper.make_opsetid(node.domain, 1)] if node.domain else []
        model = helper.make_model(graph, opset_imports=imports)
        found = cls.run_model(model, arrays, device)
        return namedtupledict("Outputs", [value.name for value in outputs])(*found)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether a device is one that Lamina runs on."""
        return device.split(":", maxsplit=1)[0] == "CPU"


def _say_counts() -> None:
    if COUNTS:
        said = ", ".join(f"{COUNTS[key]} {key}" for key in ("compiled", "by meaning", "failed"))
        print(f"lamina.onnx_backend: {said}", file=sys.stderr)


atexit.register(_say_counts)

is_compatible = LaminaBackend.is_compatible
prepare = LaminaBackend.prepare
run_model = LaminaBackend.run_model
run_node = LaminaBackend.run_node
supports_device = LaminaBackend.supports_device
