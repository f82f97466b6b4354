"""The kernel zoo: `tile` programs, each with inputs of odd sizes and what NumPy makes of them."""
