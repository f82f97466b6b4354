"""Read model files into portable modules and mapped weights."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.frontend: the link at the repository's root is for reading")
