"""The portable passes, one module each."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.passes: the link at the repository's root is for reading")
