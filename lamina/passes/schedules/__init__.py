"""What kernels are built with: numbers that follow from the machine's, or that were measured."""
