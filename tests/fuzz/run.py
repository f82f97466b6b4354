"""Fuzz one parser: `python tests/fuzz/run.py NAME [--seconds N]`, from its seeds and what was found.

Inputs that reached new code are kept in `.fuzz/NAME/`, beside `.fuzz/NAME-crash-…` for each that
a parser did not refuse as it should. Those become tests.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris
from json_mutator import with_another_value
from onnx_mutator import with_another_field

HERE = Path(__file__).parent
MUTATIONS = {"onnx": with_another_field}
"""What changes a value within the inputs of a parser that are no JSON."""

LONGEST_INPUT, SECONDS_EACH, MEGABYTES = 1 << 14, 10, 2048


def main() -> None:
    """Fuzz until the time is over, or something other than a refusal comes out."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("name")
    options.add_argument("--seconds", type=int, default=120)
    options.add_argument("--corpus", type=Path, default=Path(".fuzz"))
    given = options.parse_args()
    sys.path[:0] = [str(HERE.parent / "frontend"), str(HERE.parent.parent)]
    with TemporaryDirectory() as cache:
        os.environ["LAMINA_CACHE"] = cache
        fuzz(given.name, given.seconds, given.corpus, Path(cache))


def fuzz(name: str, seconds: int, corpus: Path, scratch: Path) -> None:
    with atheris.instrument_imports(include=["lamina", "json", "xdsl.parser", "xdsl.utils"]):
        from fuzz_parsers import PARSERS

        if name not in PARSERS:
            sys.exit(f"{name}: no such parser, there are {', '.join(PARSERS)}")
        parser = PARSERS[name]
        once = refusing(parser.parse, parser.refusals, scratch / "input")
        # What is imported when it is first needed is to be instrumented too.
        for seed in parser.seeds():
            once(seed)
    kept = corpus / name
    kept.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(parser.seeds()):
        (kept / f"seed-{number}").write_bytes(seed)
    flags = {
        "max_total_time": seconds,
        "max_len": LONGEST_INPUT,
        "timeout": SECONDS_EACH,
        "rss_limit_mb": MEGABYTES,
        "artifact_prefix": f"{corpus}/{name}-",
        "print_final_stats": 1,
    }
    atheris.Setup(
        [sys.argv[0], *(f"-{key}={value}" for key, value in flags.items()), str(kept)],
        once,
        custom_mutator=mutating(MUTATIONS.get(name, with_another_value)),
    )
    atheris.Fuzz()


def mutating(change: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Change one value of what was parsed, or whatever libFuzzer likes to."""

    def mutated(data: bytes, longest: int, seed: int) -> bytes:
        changed = change(data, seed) if seed % 3 == 0 else data
        fits = changed != data and len(changed) <= longest
        return changed if fits else atheris.Mutate(data, longest)

    return mutated


def refusing(
    parse: Callable[[bytes, Path], None], refusals: tuple[type[Exception], ...], folder: Path
) -> Callable[[bytes], None]:
    def once(data: bytes) -> None:
        folder.mkdir()
        try:
            parse(data, folder)
        except refusals as error:
            if "\n" in str(error):
                raise AssertionError("a refusal of several lines") from error
        finally:
            shutil.rmtree(folder)

    return once


if __name__ == "__main__":
    main()
