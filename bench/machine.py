"""What a benchmark ran on."""

from lamina.measure.machine import describe

__all__ = ["describe"]
