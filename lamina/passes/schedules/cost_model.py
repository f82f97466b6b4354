"""Which tile a product gets: registers first, then what its loads cost, then the caches.

A step of the innermost loop takes some columns of K. It multiplies `rows` of the left operand by
panels of 16 columns each, which lie in as many registers as hold 16 f32. Its *sums*, one register
for a row and a register of columns, are chains of multiply-adds that wait for their predecessor.

- A core of today starts two multiply-adds a cycle, each four cycles long (`CHAINS` in flight);
  half as many again hide what is late.
- Sums of floats take half of the registers, so that as many columns again can be on their way, or
  as many as the chains need; with the smaller operand in registers, and one more, they must fit.
  Among tiles that do, the one with the fewest loads for a multiply-add is the best.
- Weights in blocks take work before they are multiplied, which the rows of a tile share: one panel
  of them and up to `MOST_ROWS` rows, whose sums must fit beside it. What those add up from group to
  group of columns waits in memory where registers are few.
- One row takes each weight once, as it comes from memory: one multiply-add a cycle at most, so that
  about four chains are enough, of a number that leaves no core without its share.
- What is read again for every tile of rows has to stay in the second cache level, and what a tile
  keeps until its end in half of the first. A band of panels in blocks that takes a quarter of the
  second level is gone through for some rows, which then come from the first, before the next rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lamina.passes.kernels.divisors import largest_divisor
from lamina.passes.schedules.machine import Machine
from lamina.passes.schedules.shared_linears import BLOCK, SharedLinear, shared_linear
from lamina.passes.schedules.shared_tiles import Dot, SharedTile, shared_tile

ABREAST_WINDOWS = 7
"""Windows side by side: twice as many gain nothing, and images are often 7, 14, 28, 56 wide."""

PRODUCTS = 28
"""Multiply-adds in a round of a loop: more make kernels long, and no faster."""

SUMS, WINDOWS = 16, 4
"""Sums of a thread in a tile of windows: of products, and where channels are not summed up."""

PANEL = 16
"""Columns of a packed panel."""

LATENCY, ABREAST = 4, 2
"""Cycles that a multiply-add takes, and how many start in a cycle."""

CHAINS = LATENCY * ABREAST
ENOUGH = CHAINS * 3 // 2
"""Chains without which units wait, and those that hide what is late."""

MOST_ROWS = 8
"""Rows of a tile: unpacking a panel is then an eighth of the work, and few rows are not lost in
tiles that are mostly empty."""

ALL_ROWS = 8
"""Rows of all products of a group whose weights are in blocks: each is some thirty instructions
more, of which a kernel should have 600 at most, and eight sequences have two whole tiles of two."""

WRITTEN = 32
"""Columns of a tile that goes into pages: keys and values are narrow, and have workers to share."""

LONG = 16384
"""Columns from which panels in blocks are read one after another: one stream, which is faster
where it is long, and slower elsewhere."""

STEP = 4
"""Columns of K at once: dots of 8-bit numbers take four, and a loop's own instructions are then a
tenth of the others."""

POINT_STEP = 2
"""The same for products of points: so many rows at once have instructions enough by themselves."""

F32 = 4

SHARED, TURNED = 4.0, 0.4
"""What reading the weights of a point costs, in tiles multiplied by them; and what transforming a
tile's channels does, in panels that they are multiplied by."""

MOST_TILES, MANY_TILES = 28, 256
"""Tiles of a program at most, and those of an image where its extents are not known."""


@dataclass(frozen=True)
class Tile:
    """Rows `m` by columns `n`, of which `r` are in registers at once; `k` columns of K at once.

    Programs go through bands of `b` columns, or `n` for None.
    """

    m: int
    n: int
    r: int
    k: int
    b: int | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """Those that are said, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Linear:
    """Products of one left operand with packed weights, as far as their tile depends on them.

    `few` says that there are `rows` rows at most, `counts` how many panels a program may take,
    ascending. `blocks` says that the weights come in blocks; `sums` are those of the innermost
    loop for an element, `pages` that the result goes into pages, `weight` the bytes of a weight.
    """

    depth: int
    columns: int
    counts: tuple[int, ...]
    products: int = 1
    few: bool = False
    blocks: bool = False
    integer: bool = False
    sums: int = 1
    pages: bool = False
    weight: float = 4.0


@dataclass(frozen=True)
class Wishes:
    """Numbers that are taken instead of the model's, None for those that are not; see the pass."""

    rows: int | None = None
    all_rows: int | None = None
    many: int | None = None
    few: int | None = None
    written: int | None = None
    long: int | None = None
    float_rows: int | None = None
    float_columns: int | None = None
    k: int | None = None
    few_rows: int = 1


@dataclass(frozen=True)
class CostModel:
    """The tiles that a machine should be given, but for what is wished for.

    There are at most `rows` rows, None for any number.
    """

    machine: Machine
    wishes: Wishes = Wishes()
    rows: int | None = None

    @property
    def panel(self) -> int:
        """Registers of a panel's column."""
        return -(-PANEL // self.machine.lanes)

    def linear(self, linear: Linear) -> Tile | SharedLinear:
        """Return the tile of products with packed weights."""
        threads, units = self.machine.threads, self.machine.matrix > 0 or not linear.integer
        if threads > 1 and units and linear.depth and linear.depth % BLOCK == 0:
            sizes = linear.depth, linear.counts, linear.products
            # A thread has no registers for the floats of several products beside rows of its own.
            many = not linear.blocks and linear.products > 1 and self.rows != 1
            rows = None if many else self.rows
            return shared_linear(*sizes, rows, threads, sums=linear.sums, pages=linear.pages)
        if linear.few:
            return self._few(linear)
        return self._blocks(linear) if linear.blocks else self._floats(linear)

    def shared_dot(self, dot: Dot) -> SharedTile:
        """Return the tile of a product of two tensors that the threads of a block share."""
        machine = self.machine
        tf32 = machine.tf32 and machine.matrix > 0
        return shared_tile(dot, machine.threads, machine.matrix, self._step, tf32=tf32)

    def dot(self) -> Tile:
        """Return the tile of a product of two tensors.

        Its right operand is turned round once for all rows of a tile. Sums take half of the
        registers, as those of floats do.
        """
        rows = self.wishes.rows or MOST_ROWS
        columns = max(1, self.machine.registers // 2 // MOST_ROWS) * self.machine.lanes
        return Tile(rows, self.wishes.few or columns, self.wishes.few or columns, self._step)

    def conv(self, groups: int = 1) -> Tile:
        """Return the tile of a convolution: windows side by side, and output channels.

        It has a panel of each of `groups`, if those are to be abreast.

        Sums, the weights of one input channel and one input at a time must fit into registers.
        """
        if self.machine.threads > 1:
            return self._shared_windows(SUMS)
        if groups > 1:
            return self._groups(groups)
        panels = max(1, self.machine.registers // PANEL // self.panel)
        room = (self.machine.registers - 1) // (panels * self.panel) - 1
        rows = min(ABREAST_WINDOWS, max(1, room))
        return Tile(rows, panels * PANEL, panels * PANEL, self._step)

    def _groups(self, groups: int) -> Tile:
        room = (self.machine.registers - 2) // (groups * self.panel)
        rows = min(ABREAST_WINDOWS, max(1, room))
        step = max(1, min(self._step, PRODUCTS // (rows * groups * self.panel)))
        return Tile(rows, groups * PANEL, groups * PANEL, step)

    def winograd(self, tiles: int | None, points: int, depth: int, panels: int) -> dict[str, int]:
        """Return the sizes of a convolution by transforms: see `winograd_kernel`.

        An image has so many `tiles`, None for any number. The tiles of a program share what is
        read of the weights; what is transformed of a block of channels, and the sums of all
        columns, stay in the second cache level.
        """
        wide = 2 if panels % 2 == 0 else 1
        room = min((self.machine.registers - 1) // (wide * self.panel) - 1, MOST_ROWS)
        least = max(1, min(CHAINS // wide, room))
        # Of equal sizes, that with the most tiles in registers at once.
        abreast = {s * q: s for s in range(least, room + 1) for q in range(1, MOST_TILES // s + 1)}
        count = MANY_TILES if tiles is None else tiles
        kept = self.machine.l2 // 2 // (points * F32)

        def cost(rows: int, columns: int) -> float:
            blocks = -(-count // rows)
            programs = blocks * (panels // columns)
            turns = -(-programs // self.machine.cores) * self.machine.cores / programs
            return turns * blocks * rows * (1 + SHARED / rows) * (1 + TURNED / columns)

        sizes = (
            (rows, columns)
            for rows in abreast
            for columns in range(1, panels + 1)
            if panels % columns == 0 and columns % wide == 0
            if rows * columns * PANEL <= kept or columns == wide
        )
        rows, columns = min(sizes, key=lambda size: (cost(*size), size))
        block = max(PANEL, min(depth, kept // rows // PANEL * PANEL))
        return {
            "m": rows,
            "s": abreast[rows],
            "n": columns * PANEL,
            "r": wide * PANEL,
            "k": POINT_STEP,
            "b": block,
        }

    def window(self) -> Tile:
        """Return the tile of what goes through windows channel by channel."""
        if self.machine.threads > 1:
            return self._shared_windows(WINDOWS)
        columns = max(1, self.machine.registers // 2 // MOST_ROWS) * self.machine.lanes
        return Tile(ABREAST_WINDOWS, columns, columns, 1)

    def _shared_windows(self, sums: int) -> Tile:
        columns = min(PANEL * 2, self.machine.threads)
        return Tile(self.machine.threads * sums // columns, columns, columns, self._step)

    def registers(self, linear: Linear, tile: Tile) -> int:
        """Return how many registers the innermost loop of a tile takes: sums and operands."""
        columns = tile.r // PANEL * self.panel
        operands = self._beside(linear) if linear.blocks else min(tile.m, columns) + 1
        return tile.m * columns * linear.sums + operands

    @property
    def _step(self) -> int:
        return self.wishes.k or STEP

    def _beside(self, linear: Linear) -> int:
        """Return the registers of a panel's column, and of an element of a row, beside the sums."""
        # Without an instruction for dots, bytes become two registers of 16 bits.
        apart = 2 if linear.integer and not self.machine.dots else 0
        return self.panel + apart + 1

    def _fitting(self, linear: Linear) -> int:
        """Return how many panels of a row, or rows of a panel, have room for their sums."""
        room = self.machine.registers - self._beside(linear)
        return max(1, room // (self.panel * linear.sums))

    def _few(self, linear: Linear) -> Tile:
        """One row, and four chains of it; programs read weights in blocks ahead of each other."""
        wished = self.wishes.few
        most = (wished or max(PANEL, LATENCY * self.machine.lanes)) // linear.products // PANEL
        if wished is None and linear.blocks:
            most = self._cached(most, 2.0 * linear.products * linear.depth * linear.weight)
        tiles = self._tiles(linear, most)
        fitting = self._fitting(linear)
        long = linear.blocks and linear.columns >= (self.wishes.long or LONG)
        if wished is None and linear.blocks and not long:
            tiles = self._shared(linear, tiles)
        at_once = 1 if long else largest_divisor(tiles, fitting if wished is None else tiles)
        return Tile(self.wishes.few_rows, tiles * PANEL, at_once * PANEL, self._step)

    def _shared(self, linear: Linear, tiles: int) -> int:
        """Return about so many panels, so that programs come out even among the cores."""
        panels = -(-linear.columns // PANEL)
        most = self._most(linear, tiles * 3 // 2)

        def cost(count: int) -> tuple[int, bool, int]:
            shares = -(-(panels // count) // self.machine.cores)
            return shares * count, count != tiles, -count

        about = [n for n in linear.counts if tiles * 3 // 4 <= n <= most]
        return min(about, key=cost, default=tiles)

    def _blocks(self, linear: Linear) -> Tile:
        """One panel at a time, and as many rows as have room for their sums."""
        rows = self.wishes.rows or min(MOST_ROWS, self._fitting(linear))
        all_rows = self.wishes.all_rows or ALL_ROWS
        rows = min(rows, max(1, all_rows // linear.products))
        tiles = self._tiles(linear, (self.wishes.many or PANEL) // linear.products // PANEL)
        band = self._band(linear, tiles)
        return Tile(self._kept(linear, rows, tiles), tiles * PANEL, PANEL, self._step, band)

    def _band(self, linear: Linear, tiles: int) -> int:
        """Return the columns of tiles side by side that take a quarter of the second level."""
        tile = tiles * PANEL * linear.depth * linear.weight * linear.products
        groups = -(-linear.columns // PANEL) // tiles
        return largest_divisor(groups, int(self.machine.l2 // 4 // tile)) * tiles * PANEL

    def _floats(self, linear: Linear) -> Tile:
        """Several panels side by side, so that each element of a row is used as often."""
        rows, width = self._square()
        wished = self.wishes.float_columns
        if wished is None:
            width = self._cached(width, linear.depth * linear.weight)
        else:
            width = wished // PANEL
        tiles = self._tiles(linear, width)
        at_once = largest_divisor(tiles, width)
        if self.wishes.float_rows is not None:
            rows = self.wishes.float_rows
        else:
            rows = max(rows, -(-CHAINS // (at_once * self.panel)))
        return Tile(self._kept(linear, rows, tiles), tiles * PANEL, at_once * PANEL, self._step)

    def _square(self) -> tuple[int, int]:
        """Return the rows and panels of the tile that floats are multiplied fastest with."""
        most = max(self.machine.registers // 2, ENOUGH)
        best = ((float("inf"), 0.0, 0), (1, 1))
        for rows in range(1, MOST_ROWS + 1):
            for panels in range(1, max(1, most // (rows * self.panel)) + 1):
                columns = panels * self.panel
                sums = rows * columns
                if sums > most or sums + min(rows, columns) + 1 > self.machine.registers:
                    continue
                cost = (max(1.0, ENOUGH / sums), (rows + columns) / sums, rows)
                best = min(best, (cost, (rows, panels)))
        return best[1]

    def _tiles(self, linear: Linear, most: int) -> int:
        """Return how many panels a program takes: at most so many, if its end can finish them.

        A wider tile than wished for is better than one that its end cannot finish.
        """
        fitting = (count for count in linear.counts if count <= self._most(linear, most))
        return max(fitting, default=linear.counts[0])

    def _most(self, linear: Linear, most: int) -> int:
        return min(most, (self.wishes.written or WRITTEN) // PANEL) if linear.pages else most

    def _cached(self, panels: int, column: float) -> int:
        """Return at most `panels`, so few that they stay in the second cache level.

        `column` are the bytes of one of their columns.
        """
        while panels > 1 and panels * PANEL * column > self.machine.l2:
            panels //= 2
        return panels

    def _kept(self, linear: Linear, rows: int, tiles: int) -> int:
        """Return at most `rows`, so few that results fit into half of the first cache level."""
        row = tiles * PANEL * F32 * linear.products
        return min(rows, max(1, self.machine.l1 // 2 // row))
