"""Tiles fit the registers of every machine, and are those that were measured where they were."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.errors import InputError
from lamina.passes.schedules.cost_model import PANEL, CostModel, Linear, Tile, Wishes
from lamina.passes.schedules.machine import Machine
from lamina.targets.cpu.caches import CacheSizes, cache_sizes
from lamina.targets.cpu.features import emittable
from lamina.targets.cpu.schedules import machine_of

AVX512 = Machine(lanes=16, registers=32, dots=True)
AVX2 = Machine(lanes=8, registers=16)
NEON = Machine(lanes=4, registers=32, dots=True)
SSE = Machine(lanes=4, registers=16)
MACHINES = (AVX512, AVX2, NEON, SSE)

FORMS = ({}, {"blocks": True}, {"blocks": True, "integer": True})


@st.composite
def linears(draw: st.DrawFn) -> Linear:
    """Products of any form, whose end some of the tiles that divide the columns suit."""
    depth, columns = draw(st.integers(1, 5000)), draw(st.integers(1, 5000))
    tiles = -(-columns // PANEL)
    divisors = [n for n in range(1, tiles + 1) if tiles % n == 0]
    counts = draw(st.lists(st.sampled_from(divisors), min_size=1, unique=True))
    form = draw(st.sampled_from(FORMS))
    return Linear(
        depth,
        columns,
        tuple(sorted(counts)),
        products=draw(st.integers(1, 3)),
        few=draw(st.booleans()),
        sums=draw(st.sampled_from((1, 2, 4))) if "integer" in form else 1,
        pages=draw(st.booleans()),
        weight=draw(st.sampled_from((0.6, 1.1, 2.0, 4.0))),
        **form,
    )


@settings(max_examples=300)
@given(linears(), st.sampled_from(MACHINES))
def test_a_tile_fits_the_registers_and_its_end(linear: Linear, machine: Machine) -> None:
    model = CostModel(machine)
    tile = model.linear(linear)
    assert tile.n in {count * PANEL for count in linear.counts}
    assert tile.n % tile.r == 0
    assert min(tile.m, tile.k) >= 1
    if tile.m > 1 or tile.r > PANEL:
        assert model.registers(linear, tile) <= machine.registers


@settings(max_examples=100)
@given(linears(), st.sampled_from(MACHINES))
def test_results_stay_in_the_first_cache_level(linear: Linear, machine: Machine) -> None:
    tile = CostModel(machine).linear(linear)
    assert tile.m == 1 or tile.m * tile.n * 4 * linear.products <= machine.l1


@pytest.mark.parametrize("machine", MACHINES)
def test_a_product_of_two_tensors_has_a_sum_a_register(machine: Machine) -> None:
    tile = CostModel(machine).dot()
    assert tile.m * tile.n <= machine.registers * machine.lanes


INTEGER = {"blocks": True, "integer": True, "weight": 0.63}
WIDE, ENDED = (1, 2, 3, 4, 6, 9, 12, 18, 36), (2, 4, 6, 12)
FOUND = [
    (Linear(576, 576, WIDE, **INTEGER), Tile(8, 16, 16, 4, 576)),
    (Linear(576, 1536, ENDED, products=2, **INTEGER), Tile(4, 32, 16, 4, 256)),
    (Linear(576, 49152, WIDE, sums=2, **INTEGER), Tile(8, 16, 16, 4, 512)),
    (Linear(576, 576, WIDE, few=True, **INTEGER), Tile(1, 64, 64, 4)),
    (Linear(576, 1536, ENDED, products=2, few=True, **INTEGER), Tile(1, 32, 32, 4)),
    (Linear(576, 192, (1, 2, 4), pages=True, few=True, **INTEGER), Tile(1, 32, 32, 4)),
    (Linear(576, 49152, WIDE, sums=2, few=True, **INTEGER), Tile(1, 64, 16, 4)),
    (Linear(576, 576, WIDE, blocks=True), Tile(8, 16, 16, 4, 96)),
    (Linear(768, 3072, WIDE), Tile(4, 64, 64, 4)),
    (Linear(3072, 768, WIDE), Tile(4, 64, 64, 4)),
    (Linear(768, 50257, (1, 2)), Tile(4, 32, 32, 4)),
    (Linear(768, 768, WIDE, few=True), Tile(1, 64, 64, 4)),
]


@pytest.mark.parametrize(("linear", "tile"), FOUND)
def test_registers_of_512_bits_have_the_tiles_that_were_measured(
    linear: Linear, tile: Tile
) -> None:
    assert CostModel(AVX512).linear(linear) == tile


def test_fewer_registers_make_smaller_tiles() -> None:
    model = CostModel(AVX2)
    assert model.linear(Linear(768, 768, WIDE)) == Tile(3, 32, 32, 4)
    assert model.linear(Linear(768, 768, WIDE, few=True)) == Tile(1, 32, 32, 4)
    assert model.linear(Linear(576, 576, WIDE, **INTEGER)) == Tile(5, 16, 16, 4, 576)


def test_one_panel_alone_has_rows_for_enough_chains() -> None:
    assert CostModel(AVX512).linear(Linear(768, 80, (1,))) == Tile(8, 16, 16, 4)


def test_panels_that_are_read_again_stay_in_the_second_cache_level() -> None:
    small = CostModel(Machine(16, 32, l2=1 << 17))
    assert small.linear(Linear(1024, 768, WIDE)).n == 32
    assert small.linear(Linear(4096, 768, WIDE, few=True, **INTEGER)).n == 16


@pytest.mark.parametrize(("cores", "columns"), [(1, 64), (2, 96), (3, 64), (4, 48), (36, 48)])
def test_one_row_is_shared_out_evenly(cores: int, columns: int) -> None:
    model = CostModel(replace(AVX512, cores=cores))
    assert model.linear(Linear(576, 576, WIDE, few=True, **INTEGER)).n == columns
    assert model.linear(Linear(576, 576, (4,), few=True, **INTEGER)).n == 64


def test_what_is_wished_for_takes_the_place_of_the_model() -> None:
    model = CostModel(AVX512, Wishes(rows=3, few=32, float_rows=2, float_columns=32, k=8))
    assert model.linear(Linear(576, 576, WIDE, **INTEGER)) == Tile(3, 16, 16, 8, 576)
    assert model.linear(Linear(576, 576, WIDE, few=True)) == Tile(1, 32, 32, 8)
    assert model.linear(Linear(576, 576, WIDE)) == Tile(2, 32, 32, 8)
    assert (model.dot().m, model.dot().n) == (3, 32)


@pytest.mark.parametrize("wrong", [{"lanes": 0}, {"registers": 1000}, {"l2": -1}, {"cpu": 3}])
def test_a_machine_that_there_is_not_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=f"schedule-groups: {next(iter(wrong))} is"):
        Machine(**wrong)  # type: ignore[arg-type]


def test_machines_have_digests_of_their_own() -> None:
    assert len({machine.digest for machine in (*MACHINES, Machine(cpu="x"))}) == 5


@pytest.mark.parametrize(
    ("level", "lanes", "registers"), [("avx2", 8, 16), ("neondot", 4, 32), ("generic", 4, 16)]
)
def test_a_level_is_a_machine(level: str, lanes: int, registers: int) -> None:
    machine = machine_of(emittable(level))
    assert (machine.lanes, machine.registers) == (lanes, registers)
    assert machine.dots == (level == "neondot")


def cache_folder(path, *indices: tuple[str, str, str]):
    for n, words in enumerate(indices):
        (path / f"index{n}").mkdir()
        for name, word in zip(("level", "type", "size"), words, strict=True):
            (path / f"index{n}" / name).write_text(f"{word}\n")
    return path


def test_cache_sizes_are_read_from_the_system(tmp_path) -> None:
    said = (("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"))
    assert cache_sizes(cache_folder(tmp_path, *said)) == CacheSizes(48 << 10, 2 << 20)


def test_cache_sizes_that_nobody_says_are_those_of_most_machines(tmp_path) -> None:
    assert cache_sizes(tmp_path / "nowhere") == CacheSizes()
    said = (("1", "Data", "0K"), ("2", "Unified", "4096M"))
    assert cache_sizes(cache_folder(tmp_path, *said)) == CacheSizes()


def test_a_cache_size_that_is_no_number_is_none(tmp_path) -> None:
    assert cache_sizes(cache_folder(tmp_path, ("1", "Data", "many"))) == CacheSizes()
