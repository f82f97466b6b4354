"""Read model files into portable modules and mapped weights."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.frontend, not frontend: the links at the repository's root are for reading")
