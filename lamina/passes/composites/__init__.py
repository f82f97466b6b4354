"""How each composite operation is spelt in primitives, one pattern each."""
