"""Say at the end how many checks ran."""

from lamina.testing.conformance import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]
