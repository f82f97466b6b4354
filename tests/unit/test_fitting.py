"""What a kernel asks of a device, and how far it counts."""

import pytest

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.devices.fitting import check_fits, check_numbers, element_counts


def test_what_a_device_has_too_few_of_is_named():
    check_fits("k", "the device", [("threads a block", 64, 64)])
    with pytest.raises(
        TargetUnavailable, match=r"^kernel k needs 65 threads a block, the device h"
    ):
        check_fits("k", "the device", [("buffers", 1, 8), ("threads a block", 65, 64)])


def test_elements_are_counted_with_the_extents_that_words_say():
    shapes, slots = [(3, 4), (-1, 5, -1), (), (-1,)], [0, 3, 0, 2]
    assert element_counts(shapes, slots, [7, 2, 10, 9, 1, 99]) == [12, 70, 1, 9]


def test_numbers_of_more_than_32_bits_are_refused_whatever_their_factors():
    check_numbers("k", element_counts([(-1, -1)], [2], [46340, 46340]))
    with pytest.raises(InputError, match=r"^kernel k needs numbers beyond 32 bits"):
        check_numbers("k", element_counts([(-1, -1)], [2], [46341, 46341]))
