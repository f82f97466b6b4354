"""How code outside this package adds to it."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.plugins: the link at the repository's root is for reading")
