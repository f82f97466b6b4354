"""Check a CUDA device in at most eight minutes: kernels, rates, and decoders from end to end.

    python bench/gpu_check.py                          all stages, results in gpu_check/
    python bench/gpu_check.py --model FILE.gguf        with a model of a file as well
    python bench/gpu_check.py --stages facts limits products --budget 120
    python bench/gpu_check.py --dry-run                in small, on a device that interprets PTX

Every stage is a process of its own, with a time limit. What it finds is printed as it comes and
kept in OUTPUT/results.jsonl, one JSON object a line; inputs and results of kernels are kept in
OUTPUT/golden. Shares of the device's bandwidth need the stage `limits` to have run there before.
The exit code is 0 if all is right, 1 if something is wrong or there is no device.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any, TextIO

from positive import positive

from lamina.errors import TargetUnavailable

RESULTS = "results.jsonl"
BUDGET = 480
NO_DEVICE = 3
RESTARTS = 6
"""How often a stage goes on behind what ended it."""
GRACE = 5
"""Seconds that a stage has beyond its end before it is ended."""


@dataclass(frozen=True)
class Stage:
    """A part of the checks: where it is, and how many seconds it may take."""

    module: str
    function: str
    seconds: int


STAGES: Mapping[str, Stage] = {
    "facts": Stage("gpu_limits", "facts", 30),
    "limits": Stage("gpu_limits", "limits", 40),
    "zoo": Stage("gpu_kernels", "zoo", 60),
    "kernels": Stage("gpu_kernels", "kernels", 90),
    "products": Stage("gpu_rates", "products", 60),
    "attention": Stage("gpu_attention", "attend", 45),
    "rows": Stage("gpu_rates", "on_rows", 45),
    "large": Stage("gpu_models", "large", 120),
    "file": Stage("gpu_models", "from_file", 90),
    "sanitizer": Stage("gpu_kernels", "sanitizer", 60),
    "kit": Stage("gpu_kernels", "kit", 180),
}
"""What is done, what matters most first."""

INNER: Mapping[str, Stage] = {"smallest": Stage("gpu_kernels", "smallest", 60)}
"""What stages run under other tools."""


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), metavar="STAGE",
                      help=f"what to do, of {', '.join(STAGES)}")  # fmt: skip
    made.add_argument("--model", type=Path, help="a GGUF file or a folder, for the stage file")
    made.add_argument(
        "--budget", type=positive, default=BUDGET, metavar="SECONDS", help="for all stages"
    )
    made.add_argument(
        "--output", type=Path, default=Path("gpu_check"), metavar="FOLDER", help="for results"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all as one object, too")
    made.add_argument("--dry-run", action="store_true", help="in small, without a device")
    made.add_argument("--stage", choices=[*STAGES, *INNER], help=argparse.SUPPRESS)
    made.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    return made


def run_stage(options: argparse.Namespace) -> int:
    """Do one stage in this process, and print what it finds as lines of JSON."""
    from gpu_setting import Setting

    stage = {**STAGES, **INNER}[options.stage]
    ends = monotonic() + options.budget
    setting = Setting(options.output, options.dry_run, options.model, ends, options.skip)
    found: Callable[[Setting], Iterator[dict[str, Any]]]
    found = getattr(import_module(stage.module), stage.function)
    try:
        print(f"on {setting.device.name}", flush=True)
    except TargetUnavailable as error:
        print(error, flush=True)
        return NO_DEVICE
    for record in found(setting):
        print(json.dumps(record), flush=True)
    return 0


def watched(options: argparse.Namespace, name: str, seconds: int) -> Iterator[dict[str, Any]]:
    """Run a stage in processes of its own, each of which goes on behind what ended the last."""
    ends, skip = monotonic() + seconds, 0
    for _ in range(1 + RESTARTS):
        begun = skip - 1
        for record in _in_process(options, name, max(1, int(ends - monotonic())), skip):
            begun = record.get("begun", begun)
            if "begun" not in record:
                yield record
        if "item" not in record or begun < skip or monotonic() > ends:
            return
        skip = begun + 1


def _in_process(
    options: argparse.Namespace, name: str, seconds: int, skip: int
) -> Iterator[dict[str, Any]]:
    """Run a stage in a process of its own, and yield what it says, and how it ended."""
    command = [sys.executable, __file__, "--stage", name, "--budget", str(seconds)]
    command += ["--skip", str(skip)]
    command += ["--output", str(options.output)]
    command += ["--dry-run"] if options.dry_run else []
    command += ["--model", str(options.model)] if options.model else []
    began, said = monotonic(), list[str]()
    begun: dict[str, Any] = {"begun": -1}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        timer = Timer(seconds + GRACE, _end, [child])
        timer.start()
        try:
            for line in child.stdout:
                record = _record(line)
                if record is None:
                    said.append(line.rstrip())
                else:
                    begun = record if "begun" in record else begun
                    yield {"stage": name, **record}
            code = child.wait()
        finally:
            timer.cancel()
            if child.poll() is None:
                _end(child)
    took = monotonic() - began
    ended: dict[str, Any] = {"stage": name, "took_s": round(took, 1)}
    if code == NO_DEVICE:
        yield {**ended, "ok": False, "no_device": said[-1] if said else "there is no device"}
    elif code:
        late = code == -signal.SIGKILL
        why = f"ended after {seconds} s" if late else f"exit {code}: {' / '.join(said[-4:])}"
        item = {} if late else {"name": begun.get("what", ""), "item": begun["begun"]}
        yield {**ended, **item, "ok": False, "why": why}
    else:
        yield ended


def _end(child: "subprocess.Popen[str]") -> None:
    # With all that it started.
    os.killpg(child.pid, signal.SIGKILL)


def _record(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def shown(record: Mapping[str, Any]) -> str:
    """Return a record as a line of text."""
    known = {"stage", "name", "ok"}
    mark = {True: "ok", False: "WRONG"}.get(record.get("ok"), "")  # type: ignore[arg-type]
    rest = (f"{key} {_figure(value)}" for key, value in record.items() if key not in known)
    return f"{record['stage']:10}{mark:6}{record.get('name', '')!s:44}{', '.join(rest)}"


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def check(options: argparse.Namespace, file: TextIO) -> list[dict[str, Any]]:
    """Run the stages that are asked for, as far as time allows; write and print what they find."""
    ends, found = monotonic() + options.budget, list[dict[str, Any]]()
    for name in STAGES:
        left = int(ends - monotonic()) - GRACE
        if name not in options.stages:
            continue
        records: Sequence[dict[str, Any]] | Iterator[dict[str, Any]]
        if left < 1:
            records = [{"stage": name, "name": "no time was left"}]
        else:
            records = watched(options, name, min(left, STAGES[name].seconds))
        for record in records:
            found.append(record)
            print(json.dumps(record), file=file, flush=True)
            if "no_device" in record:
                return found
            print(shown(record), flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check; return the exit code."""
    options = parser().parse_args(arguments)
    if options.stage:
        return run_stage(options)
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / RESULTS).open("w", encoding="utf-8") as file:
        found = check(options, file)
    if found and (missing := found[-1].get("no_device")):
        print(missing, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wrong = [record for record in found if record.get("ok") is False]
    right = sum(record.get("ok") is True for record in found)
    print(f"{right} right, {len(wrong)} wrong; results in {options.output / RESULTS}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
