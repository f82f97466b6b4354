"""Operations and milliseconds of every pass that compiles a model.

    python bench/compile.py [MODEL] [--target cpu] [--json]

After the passes come `emit`, which makes the code, and `load`, which prepares the weights.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from machine import describe

from lamina import compiler
from lamina.dialects.names import escape_name
from lamina.frontend.fetch import resolve_model
from lamina.plugins import manager

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """One part of the work: its name, its milliseconds, and the operations it left."""

    name: str
    milliseconds: float
    operations: int


class Stopwatch:
    """Notes what each pass takes, as an observer of passes."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._started = perf_counter()

    def __call__(
        self, last: "ModulePass | None", module: "ModuleOp", following: "ModulePass | None"
    ) -> None:
        """Note the pass that has just run; counting operations is not part of its time."""
        if last is not None:
            self.note(str(last), module)
        self._started = perf_counter()

    def note(self, name: str, module: "ModuleOp") -> None:
        """Note that `name` took the time since the last note."""
        milliseconds = (perf_counter() - self._started) * 1e3
        self.stages.append(Stage(name, milliseconds, sum(1 for _ in module.walk())))
        self._started = perf_counter()

    def timed(self, name: str, module: "ModuleOp", work: Callable[[], T]) -> T:
        """Do `work` and note it."""
        self._started = perf_counter()
        result = work()
        self.note(name, module)
        return result


def stages(model: str, target: str) -> list[Stage]:
    """Return every stage of compiling `model` for `target`."""
    watch = Stopwatch()
    began = perf_counter()
    read = compiler.read(resolve_model(model))
    reading = Stage("read", (perf_counter() - began) * 1e3, sum(1 for _ in read.module.walk()))
    chosen = compiler.resolve_target(target, read.module)
    module = compiler.lower(read, chosen, observers=[watch])
    context = manager.context()
    artifact = watch.timed("emit", module, lambda: chosen.emit(context, module))
    weights = {escape_name(name): weight for name, weight in read.weights.items()}
    watch.timed("load", module, lambda: chosen.load(artifact, weights))
    return [reading, *watch.stages]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="smollm2", help="a model, or its name")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = stages(options.model, options.target)
    if options.json:
        print(json.dumps({"machine": describe(), "stages": [asdict(each) for each in found]}))
        return
    print(f"{options.model} for {options.target}")
    print(f"on {describe()}")
    rows = [("stage", "ms", "operations left")]
    rows += [(each.name, f"{each.milliseconds:.1f}", str(each.operations)) for each in found]
    rows.append(("all", f"{sum(each.milliseconds for each in found):.1f}", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, taken, count in rows:
        print(f"{name:{widths[0]}}  {taken:>{widths[1]}}  {count:>{widths[2]}}".rstrip())


if __name__ == "__main__":
    main()
