"""A mutation that leaves JSON whole and the length as it is, so that what is checked later is seen."""

import random
import re

VALUE = re.compile(rb'"[^"\\]{0,80}"|-?\d[\d.e+-]*|true|false|null|\[\]|\{\}')
SHORT = (b"0", b"-1", b"[]", b"{}", b'""', b"1e9", b"0.5", b"null", b"true", b"false", b"[[0]]")


def with_another_value(data: bytes, seed: int) -> bytes:
    """Put a short value, a long number, or one from elsewhere in `data` where one value stands."""
    chance = random.Random(seed)
    places = list(VALUE.finditer(data))
    if not places:
        return data
    place = chance.choice(places)
    room = len(place[0])
    choices = [*SHORT, b"9" * room, chance.choice(places)[0]]
    fitting = [each for each in choices if len(each) <= room]
    value = chance.choice(fitting) if fitting else place[0]
    return data[: place.start()] + value.ljust(room) + data[place.end() :]
