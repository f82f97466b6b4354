"""Runs the conformance tests of the package onnx through Lamina: what `make test-onnx` does.

    python tests/conformance/onnx_suite.py [--only PATTERN] [--kinds Node,Real]

Every test is run as `onnx.backend.test` runs it, in as many processes as there are CPUs. It fails
where fewer tests pass, or pass compiled, than `onnx_floors.py` says.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import unittest
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from onnx_floors import FLOORS, REASONS

Row = tuple[str, str, str, str]
"""Kind and name of a test, what became of it, and the first line of why it failed."""

FAILED, SKIPPED, LONGEST = "failed", "skipped", 160


def main() -> None:
    """Run everything in parts, print what failed, and exit with 1 below a floor."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="a pattern of tests' names")
    options.add_argument("--kinds", default=",".join(FLOORS))
    options.add_argument("--part", help="this part of the tests, as I/N, as one JSON array")
    options.add_argument("--all", action="store_true", help="list every test")
    given = options.parse_args()
    kinds = given.kinds.split(",")
    if given.part:
        number, parts = map(int, given.part.split("/"))
        json.dump(run(kinds, given.only, number, parts), sys.stdout)
        return
    rows = in_parts(sys.argv[1:])
    sys.exit(report(rows, kinds, whole=not given.only, every=given.all))


def in_parts(arguments: list[str]) -> list[Row]:
    """Run a part in a process of its own for each CPU."""
    parts = len(os.sched_getaffinity(0))
    command = [sys.executable, __file__, *arguments, "--part"]
    with TemporaryDirectory() as folder:
        beside = {"ONNX_MODELS": folder, "LAMINA_CACHE": folder} | {"OPENBLAS_NUM_THREADS": "1"}
        running = [
            subprocess.Popen([*command, f"{i}/{parts}"], stdout=-1, env={**os.environ, **beside})
            for i in range(parts)
        ]
        outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit("a part of the tests did not end")
    return sorted(tuple(row) for output in outputs for row in json.loads(output))


def run(kinds: list[str], only: str, number: int, parts: int) -> list[Row]:
    """Run each test whose place among those chosen is of this part."""
    warnings.simplefilter("ignore")
    import onnx.backend.test

    from lamina.onnx_backend import COUNTS, LaminaBackend

    class Telling(LaminaBackend):
        """Says why it refuses a model, where the runner would skip the test."""

        @classmethod
        def is_compatible(cls, model: Any, device: str = "CPU", **more: Any) -> bool:
            return True

    suite = onnx.backend.test.BackendTest(Telling, __name__).test_cases
    cases = [(kind, suite[f"OnnxBackend{kind}ModelTest"]) for kind in kinds]
    chosen = [
        (kind, case, name)
        for kind, case in cases
        for name in unittest.defaultTestLoader.getTestCaseNames(case)
        if name.endswith("_cpu") and re.search(only, name)
    ]
    rows = (run_one(kind, case(name), COUNTS) for kind, case, name in chosen[number::parts])
    return list(rows)


def run_one(kind: str, test: unittest.TestCase, counts: Counter[str]) -> Row:
    """Run a test; it was compiled if nothing that it prepared needed the host."""
    counts.clear()
    result = unittest.TestResult()
    # What libraries print is not for the reader of the result.
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        test.run(result)
    finally:
        sys.stdout = stdout
    name = test.id().rpartition(".")[2].removesuffix("_cpu")
    bad = [*result.errors, *result.failures]
    if bad:
        return kind, name, FAILED, reason(bad[0][1])
    if result.skipped:
        return kind, name, SKIPPED, result.skipped[0][1]
    return kind, name, "by meaning" if counts["by meaning"] else "compiled", ""


def reason(traceback: str) -> str:
    """The line of a traceback that says what is wrong."""
    lines = [line.strip() for line in traceback.splitlines() if line and line[0] not in " \t"]
    said = next((line for line in lines if "Error" in line), lines[-1] if lines else "")
    return said.partition(": ")[2][:LONGEST] or said[:LONGEST]


def report(rows: list[Row], kinds: list[str], *, whole: bool, every: bool) -> int:
    """Print figures and failures; return 1 if there are too many."""
    counted = Counter((kind, state) for kind, _, state, _ in rows)
    wrong = 0
    for kind, name, state, why in rows:
        if state == FAILED or every:
            print(f"{kind} {name}: {state} {why}".rstrip())
        if state == FAILED and not any(re.fullmatch(each, name) for each in REASONS):
            print(f"  {name} fails for no reason that onnx_floors.py names")
            wrong = 1
    for kind in kinds:
        compiled, hosted = counted[kind, "compiled"], counted[kind, "by meaning"]
        total = sum(number for (each, _), number in counted.items() if each == kind)
        floor = FLOORS[kind]
        print(
            f"{kind}: {compiled + hosted} of {total} pass (at least {floor.passed}), "
            f"{compiled} compiled (at least {floor.compiled}), {hosted} by meaning"
        )
        if whole and (compiled + hosted < floor.passed or compiled < floor.compiled):
            wrong = 1
    return wrong if whole else 0


if __name__ == "__main__":
    main()
