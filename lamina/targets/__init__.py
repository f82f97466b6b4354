"""The targets, one folder each, behind one small interface."""

if not __name__.startswith("lamina."):
    raise ImportError("import lamina.targets, not targets: the links at the repository's root are for reading")
