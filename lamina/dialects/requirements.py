"""What the verifiers of the dialects say."""

from xdsl.utils.exceptions import VerifyException


def require(condition: bool, message: str) -> None:
    """Raise VerifyException with `message` unless `condition` holds."""
    if not condition:
        raise VerifyException(message)
