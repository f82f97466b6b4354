"""Changes one field of an ONNX model, so that what comes out can still be parsed."""

from random import Random
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 8, 10, 16, 23, 1 << 31, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"))
OPERATORS = (
    *("Add", "Conv", "Gather", "Reshape", "Concat", "Slice", "If", "Loop", "Cast", "Expand", "Pad"),
    *("Resize", "Einsum", "LSTM", "Attention", "TopK", "Tile", "Range", "ScatterND", "Split", "F"),
)


def with_another_field(data: bytes, seed: int) -> bytes:
    """The model with a few fields changed, taken away or doubled; other bytes as they are."""
    random, model = Random(seed), ModelProto()
    try:
        model.ParseFromString(data)
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            change(random, model, model.graph)
        return model.SerializeToString()
    except (DecodeError, ValueError, TypeError):
        return data


def change(random: Random, model: ModelProto, graph: Any) -> None:
    """Change a field of some message of the model."""
    every = list(messages(model))
    message = random.choice(every)
    fields = message.ListFields()
    if not fields or random.random() < 0.1:
        rename(random, graph)
        return
    field, value = random.choice(fields)
    if random.random() < 0.1:
        message.ClearField(field.name)
    elif hasattr(value, "ListFields"):
        change_one(random, value)
    elif isinstance(value, int | float | str | bytes):
        setattr(message, field.name, another(random, value))
    else:
        change_list(random, value)


def change_one(random: Random, message: Any) -> None:
    fields = [each for each in message.ListFields() if isinstance(each[1], int | float | str)]
    if fields:
        field, value = random.choice(fields)
        setattr(message, field.name, another(random, value))


def change_list(random: Random, values: Any) -> None:
    """Take away, repeat, move or change an element."""
    at = random.randrange(len(values))
    act = random.randrange(4)
    if act == 0:
        del values[at]
    elif act == 1:
        values.append(values[at])
    elif act == 2 and len(values) > 1:
        kept = list(values)
        random.shuffle(kept)
        del values[:]
        values.extend(kept)
    elif isinstance(values[at], int | float | str | bytes):
        values[at] = another(random, values[at])


def another(random: Random, value: Any) -> Any:
    """Another value of the same type, near to it or far."""
    if isinstance(value, int):
        # Fields of 32 bits take no more, and refuse with ValueError.
        return random.choice((value + 1, value - 1, *NUMBERS))
    if isinstance(value, float):
        return random.choice((*FLOATS, value * 2))
    if isinstance(value, bytes):
        cut = random.randrange(len(value) + 1)
        return random.choice((value[:cut], value + b"\0", bytes(len(value)), b"half_pixel"))
    return random.choice((*OPERATORS, "", "x", "y", value + "_"))


def rename(random: Random, graph: Any) -> None:
    """Have a node use, or be, another."""
    if not graph.node:
        return
    node = random.choice(graph.node)
    names = [name for each in graph.node for name in each.output] + ["x", ""]
    if node.input and random.random() < 0.5:
        node.input[random.randrange(len(node.input))] = random.choice(names)
    else:
        node.op_type = random.choice((*OPERATORS, random.choice(graph.node).op_type))


def messages(message: Any) -> Any:
    """Yield a message and all within it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from messages(inner)
