"""Write a GGUF model again with other block types, to measure it.

    python bench/requantise.py MODEL.gguf q8_0 OUTPUT.gguf

Runs under an interpreter that has `gguf` and `numpy`. Matrices get the type that is asked for,
from the numbers that the file's blocks stand for; all else stays as it is.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

TYPES = {
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "f16": gguf.GGMLQuantizationType.F16,
}
OWN = ("GGUF.", "general.architecture")
"""Fields that the writer writes by itself."""


def copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    """Copy the settings and the vocabulary."""
    for name, field in reader.fields.items():
        if name.startswith(OWN):
            continue
        kind, *inner = field.types
        writer.add_key_value(name, field.contents(), kind, inner[-1] if inner else None)


def requantise(source: Path, kind: gguf.GGMLQuantizationType, to: Path) -> None:
    """Write `source` to `to` with matrices of another type."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(to, architecture)
    copy_fields(reader, writer)
    for tensor in reader.tensors:
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
            continue
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("model", type=Path)
    options.add_argument("type", choices=TYPES)
    options.add_argument("output", type=Path)
    given = options.parse_args()
    requantise(given.model, TYPES[given.type], given.output)
