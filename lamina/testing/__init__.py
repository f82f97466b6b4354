"""What a target, in the box or not, is tested with.

`cases()` yields the conformance cases, `check(target, case)` judges one of them, and
`run(target)` all, for a score; `run_pass(name)` scores a pass. `lamina.testing.conformance` makes
them pytest tests.
"""

from lamina.testing.case import Case
from lamina.testing.report import Report, check, run, run_pass
from lamina.testing.suites import cases

__all__ = ["Case", "Report", "cases", "check", "run", "run_pass"]
