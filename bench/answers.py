"""The loop of a process that measures when it is asked; it needs nothing of Lamina.

It reads one JSON object a line and answers each with one: {"prepare": kind, "name": name, …} makes
a job of the rest, {"time": name} gives the seconds of its parts, averaged over a turn, and
{"save": name, "path": path} writes its result as `.npy`.
"""

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import turns

MOST_CALLS, FEW_FAULTS = 8, 8


class Job(Protocol):
    """Something that can be timed."""

    def once(self) -> list[float]:
        """Do it once, and return the seconds of its parts."""
        ...

    def result(self) -> "np.ndarray[Any, Any]":
        """Return what it computes."""
        ...


class Whole:
    """A call of a whole model."""

    def __init__(self, call: Callable[[], Any], result: Callable[[Any], Any] = np.asarray) -> None:
        """Take what is called, and what makes one array of what that gives."""
        self._call, self._result = call, result

    def once(self) -> list[float]:
        """Return the seconds of one call."""
        began = perf_counter()
        self._call()
        return [perf_counter() - began]

    def result(self) -> "np.ndarray[Any, Any]":
        """Return what a call computes."""
        return self._result(self._call())


def flat(outputs: Iterable[Any]) -> "np.ndarray[Any, Any]":
    """Return outputs one after another, f32."""
    return np.concatenate([np.asarray(x, np.float32).ravel() for x in outputs])


Greeting = Callable[[], dict[str, str]]
Makers = Mapping[str, Callable[..., Job]]


def threads(description: str | None) -> int:
    """Return how many threads the process is asked for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, required=True)
    return parser.parse_args().threads


def serve(greeting: Greeting, makers: Makers) -> None:
    """Say hello, and answer until input ends."""
    # Libraries write where they like; answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: dict[str, Job] = {}
    _say(answers, greeting())
    for line in sys.stdin:
        _say(answers, _answer(json.loads(line), makers, jobs))


def _answer(asked: dict[str, Any], makers: Makers, jobs: dict[str, Job]) -> dict[str, Any]:
    if "prepare" in asked:
        kind, name = asked.pop("prepare"), asked.pop("name")
        jobs.pop(name, None)
        jobs[name] = _warm(makers[kind](**asked))
    elif "time" in asked:
        return {"seconds": turns.averaged(jobs[asked["time"]].once)}
    else:
        np.save(asked["path"], jobs[asked["save"]].result())
    return {}


def _warm(job: Job) -> Job:
    """Return a job that finds all its memory in place; an allocator may need a few calls for it."""
    for _ in range(MOST_CALLS):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        job.once()
        if resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before <= FEW_FAULTS:
            break
    return job


def _say(answers: Any, value: dict[str, Any]) -> None:
    print(json.dumps(value), file=answers, flush=True)
