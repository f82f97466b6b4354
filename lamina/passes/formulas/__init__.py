"""Functions of f32 as arithmetic that every target has."""
