"""Weights as `@prepare` makes them, and the image of them on disk: the same for every target."""
