"""Kernel builders, one module for each anchor operation."""
