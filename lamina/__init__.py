"""An inference compiler: model files in, native code out, readable IR in between."""

__version__ = "0.1.0"
