"""The dialects, one module each."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.dialects, not dialects: the links at the repository's root are for reading")
