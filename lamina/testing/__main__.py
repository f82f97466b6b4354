"""Print a target's score: `python -m lamina.testing TARGET`; exit 1 unless all passed."""

import sys

from lamina.errors import LaminaError
from lamina.testing import run


def main(arguments: list[str]) -> int:
    """Score the target that the one argument names; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m lamina.testing TARGET", file=sys.stderr)
        return 2
    try:
        report = run(arguments[0])
    except LaminaError as error:
        print(error, file=sys.stderr)
        return 1
    print(report)
    return 1 if report.failed or report.refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
