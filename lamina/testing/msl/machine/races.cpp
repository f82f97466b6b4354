// Who read and wrote each byte last, and whether a barrier lies between that and an access now.
#include <sys/mman.h>
#include <vector>

#include "machine.h"

namespace msl {

// An access: the count of barriers of the whole process then, the thread's index, and the count of
// its simdgroup's barriers. A count of zero is no access.
struct Mark {
  uint32_t epoch;
  uint16_t thread;
  uint16_t turn;
};

struct Cell {
  Mark write, read, other_read;
};

namespace {

struct Group {
  uint32_t epoch;
  unsigned at[3];
};

struct Clock {
  uint32_t launch, group, now;
  uint16_t turns[1024 / simd_width];
};

bool wanted;
Clock clocks[spaces];
std::vector<Group> groups;

enum Relation { ordered, same_group, other_group };

Relation relation(Space space, Mark before, Mark now) {
  const Clock& clock = clocks[space];
  if (before.epoch < clock.launch || before.epoch == 0) return ordered;
  if (before.epoch < clock.group) return space == device_space ? other_group : ordered;
  if (before.epoch != now.epoch || before.thread == now.thread) return ordered;
  bool together = before.thread / simd_width == now.thread / simd_width;
  return together && before.turn != now.turn ? ordered : same_group;
}

[[noreturn]] void tell(const Region& region, uintptr_t at, const char* does, const char* did,
                       Mark before, Relation how, const void* code) {
  size_t byte = at - region.start;
  if (how == same_group)
    fail(0, code, "%s byte %zu of %s, which thread %u %s, with no barrier between", does, byte,
         region.name, before.thread, did);
  size_t group = groups.size() - 1;
  while (groups[group].epoch > before.epoch) --group;
  const unsigned* place = groups[group].at;
  fail(0, code,
       "%s byte %zu of %s, which thread %u of threadgroup (%u, %u, %u) %s in the same launch",
       does, byte, region.name, before.thread, place[0], place[1], place[2], did);
}

}  // namespace

void watch_races(bool are_wanted) { wanted = are_wanted; }

void watch(Region& region) {
  if (!wanted || region.cells || region.start == region.end) return;
  size_t bytes = (region.end - region.start) * sizeof(Cell);
  void* cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) fail(0, nullptr, "cannot be watched: there is no memory for it");
  region.cells = static_cast<Cell*>(cells);
}

void begin_launch(bool after_a_barrier) {
  for (Clock& clock : clocks) {
    ++clock.now;
    if (after_a_barrier || clock.launch == 0) clock.launch = clock.now;
  }
  if (after_a_barrier) groups.clear();
}

void begin_group() {
  for (Clock& clock : clocks) clock.group = ++clock.now;
  const Place& now = place();
  groups.push_back({clocks[device_space].now, {now.group[0], now.group[1], now.group[2]}});
}

void order_group(Space space) { ++clocks[space].now; }

void order_simdgroup(Space space) { ++clocks[space].turns[place().simdgroup()]; }

void check_race(const Region& region, uintptr_t at, size_t bytes, bool write, const void* code) {
  const Clock& clock = clocks[region.space];
  unsigned thread = place().index;
  Mark now{clock.now, uint16_t(thread), clock.turns[thread / simd_width]};
  Cell* cell = region.cells + (at - region.start);
  for (size_t i = 0; i < bytes; ++i, ++cell) {
    const char* does = write ? "writes" : "reads";
    if (Relation how = relation(region.space, cell->write, now))
      tell(region, at + i, does, "wrote", cell->write, how, code);
    if (write) {
      for (Mark read : {cell->read, cell->other_read})
        if (Relation how = relation(region.space, read, now))
          tell(region, at + i, does, "read", read, how, code);
      cell->write = now;
    } else {
      if (cell->read.thread != now.thread) cell->other_read = cell->read;
      cell->read = now;
    }
  }
}

}  // namespace msl
