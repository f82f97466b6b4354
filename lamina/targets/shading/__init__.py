"""What targets have in common whose kernels are the text of a shading language."""
