import math

import numpy as np
import pytest

from lamina.frontend.rope import LinearScaling, Llama3Scaling, Rope


def test_llama3_frequencies_follow_the_published_rule() -> None:
    found = Rope(5e5, 128, "half_split", Llama3Scaling(8.0, 1.0, 4.0, 8192))
    for index, value in enumerate(found.inverse_frequencies()):
        plain = 5e5 ** (-2 * index / 128)
        wavelength = 2 * math.pi / plain
        smooth = (8192 / wavelength - 1) / (4 - 1)
        expected = (1 - smooth) * plain / 8 + smooth * plain
        expected = plain / 8 if wavelength > 8192 / 1 else expected
        expected = plain if wavelength < 8192 / 4 else expected
        assert value == pytest.approx(expected, abs=1e-12)


def test_linear_frequencies_are_divided() -> None:
    found = Rope(1e4, 8, "adjacent", LinearScaling(4.0)).inverse_frequencies()
    np.testing.assert_allclose(found, np.array([1, 0.1, 0.01, 0.001]) / 4, rtol=1e-15)
