"""The targets, one folder each, behind one small interface."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.targets: the link at the repository's root is for reading")
