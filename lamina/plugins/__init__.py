"""How code outside this package adds to it."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.plugins, not plugins: the links at the repository's root are for reading")
