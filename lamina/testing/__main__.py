"""Print a target's score: `python -m lamina.testing TARGET [TOPIC …]`; exit 1 unless all passed."""

import sys

from lamina.errors import LaminaError
from lamina.testing import cases, run


def main(arguments: list[str]) -> int:
    """Score the target named first, on all topics or those named after it; return the exit code."""
    if not arguments:
        print("usage: python -m lamina.testing TARGET [TOPIC ...]", file=sys.stderr)
        return 2
    target, *topics = arguments
    try:
        report = run(target, cases(*topics))
    except LaminaError as error:
        print(error, file=sys.stderr)
        return 1
    print(report)
    return 1 if report.failed or report.refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
