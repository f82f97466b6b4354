import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.dialects.dims import Dim
from lamina.errors import InputError
from lamina.runtime.pages import PageAllocator
from lamina.runtime.pools import allocate_pools, positions_of
from lamina.targets.base import Binding


def pool(*dims: str, dtype: str = "f16", name: str = "k.0") -> Binding:
    return Binding(name, dtype, tuple(map(Dim.of, dims)))


def taken(allocator: PageAllocator, owner: int, count: int) -> list[int]:
    pages = allocator.take(owner, count)
    assert pages is not None
    return pages.tolist()


def test_pages_are_lent_in_order() -> None:
    allocator = PageAllocator(6)
    assert taken(allocator, allocator.new_owner(), 2) == [0, 1]
    assert taken(allocator, allocator.new_owner(), 3) == [2, 3, 4]


def test_a_seed_permutes_the_order() -> None:
    one, other = PageAllocator(40, seed=1), PageAllocator(40, seed=2)
    first, second = taken(one, 1, 40), taken(other, 1, 40)
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second


def test_too_many_pages_are_not_lent_in_part() -> None:
    allocator = PageAllocator(4)
    assert allocator.take(allocator.new_owner(), 5) is None
    assert allocator.free == 4


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=80), st.integers(0, 3))
def test_no_page_is_lost_or_lent_twice(orders: list[tuple[bool, int]], seed: int) -> None:
    allocator = PageAllocator(17, seed)
    lent: dict[int, list[int]] = {}
    for take, number in orders:
        if take and (pages := allocator.take(owner := allocator.new_owner(), number)) is not None:
            lent[owner] = pages.tolist()
        elif not take and lent:
            owner = list(lent)[number % len(lent)]
            allocator.give_back([owner])
            del lent[owner]
        every = [page for pages in lent.values() for page in pages]
        assert len(set(every)) == len(every)
        assert allocator.free == 17 - len(every)
    allocator.give_back(lent)
    assert allocator.free == 17


@pytest.mark.parametrize(
    "dims", [("pages", "3", "16", "64"), ("pages", "3", "2", "64", "8")], ids=["plain", "tiled"]
)
def test_a_page_has_the_positions_that_its_layout_says(dims: tuple[str, ...]) -> None:
    assert positions_of(pool(*dims)) == 16


@pytest.mark.parametrize("dims", [("T", "3", "16", "64"), ("pages", "3", "T", "64"), ("pages",)])
def test_a_state_that_is_no_pool_is_refused(dims: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"state 'k.0' is \[.*expected a pool of pages"):
        positions_of(pool(*dims))


def test_pools_are_zeros_of_their_own_and_aligned() -> None:
    kinds = [pool("pages", "1", "3", "5", dtype=t, name=t) for t in ("f16", "f32", "bf16", "i8")]
    pools = allocate_pools(kinds, 7)
    assert {name: (p.shape, p.dtype.name) for name, p in pools.items()}["bf16"] == (
        (7, 1, 3, 5),
        "bfloat16",
    )
    for number, each in enumerate(pools.values(), 1):
        assert each.ctypes.data % 64 == 0
        assert not each.any()
        each[:] = number
    assert [float(np.mean(p.astype(float))) for p in pools.values()] == [1, 2, 3, 4]


def test_pools_that_memory_cannot_hold_are_refused() -> None:
    with pytest.raises(InputError, match=r"no memory for 134217728 pages.* lower cache_tokens"):
        allocate_pools([pool("pages", "64", "16", "4096")], 2**27)
