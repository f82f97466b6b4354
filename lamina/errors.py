"""The errors a caller may want to catch."""


class LaminaError(Exception):
    """Base of every error that Lamina raises on purpose."""


class FormatError(LaminaError):
    """A file's bytes or fields break the rules of its format."""


class UnsupportedError(LaminaError):
    """A well-formed model asks for something that Lamina does not implement."""


class LoweringError(LaminaError):
    """A pass or a target met an operation that it has no rule for."""


class TargetUnavailable(LaminaError):
    """A target compiles here but cannot run here."""


class InputError(LaminaError):
    """A value that the caller gave does not fit what was asked for."""
