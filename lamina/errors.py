"""The errors a caller may want to catch."""


class LaminaError(Exception):
    """Base of every error that Lamina raises on purpose; its text is one sentence."""


class FormatError(LaminaError):
    """A file breaks its own format; the text names the file, the place and the field."""


class UnsupportedError(LaminaError):
    """A well-formed model asks for something that Lamina does not know, named in the text."""


class LoweringError(LaminaError):
    """A pass or a target met an operation that it has no rule for."""


class TargetUnavailable(LaminaError):
    """The target compiles here but cannot run here."""


class InputError(LaminaError):
    """A caller's value is wrong: the text names it, what was expected and what came."""
