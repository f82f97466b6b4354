from pathlib import Path

import pytest
from fuzz_parsers import PARSERS, redigested, resealed

from lamina.errors import FormatError

WHOLE = {name: parser.seeds() for name, parser in PARSERS.items()}
SEEDS = [(name, number) for name, seeds in WHOLE.items() for number in range(len(seeds))]
REFUSED = {("gguf", 2), ("template", 2)}
"""Seeds that end late in their parser: no such tensors, or messages that the template refuses."""


@pytest.mark.parametrize(("name", "number"), [each for each in SEEDS if each not in REFUSED])
def test_a_parser_takes_its_seed(name: str, number: int, tmp_path: Path) -> None:
    PARSERS[name].parse(WHOLE[name][number], tmp_path)


@pytest.mark.parametrize(("name", "number"), sorted(REFUSED))
def test_a_parser_refuses_a_seed_as_it_says(name: str, number: int, tmp_path: Path) -> None:
    with pytest.raises(PARSERS[name].refusals):
        PARSERS[name].parse(WHOLE[name][number], tmp_path)


@pytest.mark.parametrize(("name", "mend"), [("compiled", resealed), ("artifact", redigested)])
def test_what_fits_its_digest_is_mended_to_itself(name: str, mend) -> None:
    (seed,) = WHOLE[name]
    assert mend(seed) == seed


def test_a_changed_compiled_model_gets_past_its_digests_once_mended(tmp_path: Path) -> None:
    (seed,) = WHOLE["compiled"]
    changed = seed.replace(b'"facts"', b'"fakts"')
    with pytest.raises(FormatError, match="the header cannot be read"):
        PARSERS["compiled"].parse(changed, tmp_path)


def test_make_fuzz_runs_every_parser() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    assert f"PARSERS := {' '.join(PARSERS)}\n" in makefile
