"""The reference target: every dialect in slow, plain NumPy."""
