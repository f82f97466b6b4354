"""What `lamina opt` does between passes."""

import sys
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


@dataclass
class PassObserver:
    """After each pass: print the module, verify it, and note how long the pass took."""

    print_all: bool
    print_changed: bool
    verify: bool
    _times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    _text: str = ""
    _start: float = 0.0

    def __call__(
        self, last: "ModulePass | None", module: "ModuleOp", following: "ModulePass | None"
    ) -> None:
        """Look at `module` between two passes, as `PassPipeline` calls it."""
        if last is not None:
            self._times.append((last.name, perf_counter() - self._start))
        if last is not None and self.verify:
            from lamina.dialects.text import verify_module

            verify_module(module, last.name)
        if self.print_all or self.print_changed:
            self._print(last, str(module))
        self._start = perf_counter()

    def times(self) -> list[dict[str, Any]]:
        """Return the passes that were run and the seconds that each took, ready for JSON."""
        return [{"name": name, "seconds": seconds} for name, seconds in self._times]

    def print_times(self) -> None:
        """Print them and their sum on standard error."""
        total = sum(seconds for _, seconds in self._times)
        for name, seconds in [*self._times, ("total", total)]:
            print(f"{seconds * 1e3:10.2f} ms  {name}", file=sys.stderr)

    def _print(self, last: "ModulePass | None", text: str) -> None:
        if last is not None and (self.print_all or text != self._text):
            print(f"// -----// after {last.name} //----- //\n{text}\n", file=sys.stderr)
        self._text = text
