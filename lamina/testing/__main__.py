"""Print a score: `python -m lamina.testing TARGET|PASS [TOPIC …]`; exit 1 unless all passed."""

import sys

from lamina.errors import LaminaError
from lamina.plugins import manager
from lamina.testing import cases, run, run_pass


def main(arguments: list[str]) -> int:
    """Score the target or pass named first, on the topics named after it; return the exit code."""
    if not arguments:
        print("usage: python -m lamina.testing TARGET|PASS [TOPIC ...]", file=sys.stderr)
        return 2
    name, *topics = arguments
    try:
        report = (run_pass if name in manager.passes() else run)(name, cases(*topics))
    except LaminaError as error:
        print(error, file=sys.stderr)
        return 1
    print(report)
    return 1 if report.failed or report.refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
