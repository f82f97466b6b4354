"""The portable passes, one module each."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.passes, not passes: the links at the repository's root are for reading")
