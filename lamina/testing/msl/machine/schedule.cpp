// Runs a launch: threadgroup after threadgroup, the threads of each taking turns as fibres.
#include <csetjmp>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#include "machine.h"

namespace msl {
namespace {

constexpr size_t stack_bytes = 256 << 10;
constexpr size_t guard_bytes = 64 << 10;

enum State { ready, waiting, finished };

struct Fibre {
  jmp_buf at;
  ucontext_t start;
  bool started;
  State state;
  const char* what;
  int line;
};

// The lanes of a simdgroup that have come to an exchange; two, since a lane may be one ahead.
struct Meeting {
  unsigned come;
  unsigned which;
  unsigned first;
  const char* what;
  int line;
  char slots[2][simd_width * slot_bytes];
};

// Numbers by chance, the same for the same start (xorshift32, Marsaglia 2003).
struct Chance {
  uint32_t state;

  explicit Chance(unsigned seed) : state(seed * 2654435761u | 1) {}
  unsigned below(unsigned n) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % n;
  }
  void shuffle(std::vector<unsigned>& list) {
    for (unsigned i = list.size(); i > 1; --i) {
      unsigned j = below(i), held = list[j];
      list[j] = list[i - 1];
      list[i - 1] = held;
    }
  }
};

std::vector<Fibre> fibres;
Meeting meetings[1024 / simd_width];
unsigned at_barrier;
jmp_buf scheduler;
Launch* current;
Place now;

void fibre_main() {
  for (;;) {
    current->kernel->call(current->arguments, now);
    Fibre& self = fibres[now.index];
    self.state = finished;
    if (!_setjmp(self.at)) _longjmp(scheduler, 1);
  }
}

void make_fibres(unsigned count) {
  static bool reserved = false;
  if (!reserved) fibres.reserve(1024);
  reserved = true;
  while (fibres.size() < count) {
    fibres.emplace_back();
    Fibre& made = fibres.back();
    uintptr_t stack = stacks_start() + fibres.size() * (stack_bytes + guard_bytes);
    void* at = reinterpret_cast<void*>(stack);
    int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (mmap(at, stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
      fail(0, nullptr, "cannot be run: there is no memory for %u threads", count);
    getcontext(&made.start);
    made.start.uc_stack.ss_sp = at;
    made.start.uc_stack.ss_size = stack_bytes;
    made.start.uc_link = nullptr;
    makecontext(&made.start, fibre_main, 0);
  }
}

void enter(unsigned index) {
  now.index = index;
  now.thread_at[0] = index % now.threads[0];
  now.thread_at[1] = index / now.threads[0] % now.threads[1];
  now.thread_at[2] = index / now.threads[0] / now.threads[1];
}

void resume(unsigned index) {
  enter(index);
  Fibre& fibre = fibres[index];
  if (_setjmp(scheduler)) return;
  if (fibre.started) _longjmp(fibre.at, 1);
  fibre.started = true;
  setcontext(&fibre.start);
}

void give_way() {
  if (!_setjmp(fibres[now.index].at)) _longjmp(scheduler, 1);
}

void wait(const char* what, int line) {
  Fibre& self = fibres[now.index];
  self.state = waiting;
  self.what = what;
  self.line = line;
}

// Nobody can go on: tells of a thread that waits, and of one that does not wait for the same.
[[noreturn]] void deadlock() {
  unsigned count = now.count(), first = 0;
  while (fibres[first].state != waiting) ++first;
  enter(first);
  const Fibre& one = fibres[first];
  bool barrier = !strcmp(one.what, "threadgroup_barrier");
  unsigned begin = barrier ? 0 : now.simdgroup() * simd_width;
  unsigned end = barrier ? count : begin + now.lanes();
  for (unsigned i = begin; i < end; ++i) {
    const Fibre& other = fibres[i];
    if (other.state == finished)
      fail(one.line, nullptr, "waits at %s for thread %u, which has returned", one.what, i);
    if (strcmp(other.what, one.what) || other.line != one.line)
      fail(one.line, nullptr, "waits at %s for thread %u, which waits at %s in line %d",
           one.what, i, other.what, other.line);
  }
  fail(one.line, nullptr, "waits at %s for ever", one.what);
}

// The frames of the thread's stack each begin with the place of the next and where it was called.
void tell_callers() {
  auto frame = static_cast<void* const*>(__builtin_frame_address(0));
  for (int i = 0; i < 16 && in_stacks(uintptr_t(frame)); ++i) {
    dprintf(2, " %p", frame[1]);
    frame = static_cast<void* const*>(frame[0]);
  }
}

template <class F> void in_order(Schedule schedule, unsigned begin, unsigned end, F turn) {
  bool back = schedule == reverse || schedule == simdgroup_reverse;
  for (unsigned i = 0; i < end - begin; ++i) turn(back ? end - 1 - i : begin + i);
}

// Each thread of the range in turn, until each has come to where it waits; true if one had a turn.
bool go_through(Schedule schedule, unsigned begin, unsigned end) {
  bool any = false;
  in_order(schedule, begin, end, [&](unsigned i) {
    if (fibres[i].state != ready) return;
    any = true;
    resume(i);
  });
  return any;
}

bool go_at_random(Chance& chance) {
  std::vector<unsigned> able;
  for (unsigned i = 0; i < now.count(); ++i)
    if (fibres[i].state == ready) able.push_back(i);
  chance.shuffle(able);
  for (size_t i = 0; i < able.size() / 2 + 1 && i < able.size(); ++i) resume(able[i]);
  return !able.empty();
}

bool go_by_simdgroups(Schedule schedule) {
  bool any = false;
  unsigned count = now.count();
  in_order(schedule, 0, (count + simd_width - 1) / simd_width, [&](unsigned simdgroup) {
    unsigned begin = simdgroup * simd_width;
    unsigned end = begin + simd_width < count ? begin + simd_width : count;
    while (go_through(schedule, begin, end)) any = true;
  });
  return any;
}

bool go(Schedule schedule, Chance& chance) {
  if (schedule == random_order) return go_at_random(chance);
  if (schedule >= simdgroup_forward) return go_by_simdgroups(schedule);
  return go_through(schedule, 0, now.count());
}

void run_group(Schedule schedule, Chance& chance) {
  unsigned count = now.count();
  begin_group();
  poison_threadgroup_memory();
  at_barrier = 0;
  for (Meeting& meeting : meetings) meeting.come = meeting.which = 0;
  for (unsigned i = 0; i < count; ++i) fibres[i].state = ready;
  while (go(schedule, chance)) continue;
  for (unsigned i = 0; i < count; ++i)
    if (fibres[i].state != finished) deadlock();
}

// Waits for the other lanes; the last one to come orders their accesses, if they are to be.
const char* meet(const char* what, int line, const void* value, unsigned bytes, bool device,
                 bool threadgroup) {
  unsigned begin = now.simdgroup() * simd_width;
  Meeting& meeting = meetings[now.simdgroup()];
  char* slots = meeting.slots[meeting.which];
  if (!meeting.come) {
    meeting.first = now.index;
    meeting.what = what;
    meeting.line = line;
  } else if (meeting.line != line || strcmp(meeting.what, what)) {
    fail(line, nullptr, "comes to %s while thread %u of its simdgroup waits at %s in line %d", what,
         meeting.first, meeting.what, meeting.line);
  }
  memcpy(slots + now.lane() * slot_bytes, value, bytes);
  wait(what, line);
  if (++meeting.come == now.lanes()) {
    meeting.come = 0;
    meeting.which ^= 1;
    if (device) order_simdgroup(device_space);
    if (threadgroup) order_simdgroup(threadgroup_space);
    for (unsigned i = begin; i < begin + now.lanes(); ++i) fibres[i].state = ready;
  }
  give_way();
  return slots;
}

}  // namespace

void run(Launch& launch, unsigned seed) {
  Chance chance(seed);
  now = launch.place;
  current = &launch;
  make_fibres(now.count());
  unsigned total = now.groups[0] * now.groups[1] * now.groups[2];
  std::vector<unsigned> order;
  in_order(launch.schedule, 0, total, [&](unsigned i) { order.push_back(i); });
  if (launch.schedule == random_order) chance.shuffle(order);
  for (unsigned i : order) {
    now.group[0] = i % now.groups[0];
    now.group[1] = i / now.groups[0] % now.groups[1];
    now.group[2] = i / now.groups[0] / now.groups[1];
    run_group(launch.schedule, chance);
  }
  current = nullptr;
}

bool running() { return current; }
const char* running_kernel() { return current ? current->kernel->name : ""; }
Place& place() { return now; }
const Place& here() { return now; }

const char* exchange(const char* what, int line, const void* value, unsigned bytes) {
  return meet(what, line, value, bytes, false, false);
}

void simdgroup_barrier(int line, bool device, bool threadgroup) {
  meet("simdgroup_barrier", line, "", 1, device, threadgroup);
}

void threadgroup_barrier(int line, bool device, bool threadgroup) {
  wait("threadgroup_barrier", line);
  if (++at_barrier == now.count()) {
    for (unsigned i = 0; i < now.count(); ++i)
      if (fibres[i].line != line)
        fail(line, nullptr,
             "comes to a threadgroup_barrier while thread %u waits at that of line %d", i,
             fibres[i].line);
    at_barrier = 0;
    if (device) order_group(device_space);
    if (threadgroup) order_group(threadgroup_space);
    for (unsigned i = 0; i < now.count(); ++i) fibres[i].state = ready;
  }
  give_way();
}

void fail(int line, const void* code, const char* format, ...) {
  char sentence[512], where[128] = "";
  va_list list;
  va_start(list, format);
  vsnprintf(sentence, sizeof sentence, format, list);
  va_end(list);
  if (running())
    snprintf(where, sizeof where, ", in thread (%u, %u, %u) of threadgroup (%u, %u, %u)",
             now.thread_at[0], now.thread_at[1], now.thread_at[2], now.group[0], now.group[1],
             now.group[2]);
  dprintf(2, "%s\t%s%s\t%d\t%p", running_kernel(), sentence, where, line, code);
  tell_callers();
  _exit(3);
}

void die(int line, const char* format, ...) {
  char sentence[512];
  va_list list;
  va_start(list, format);
  vsnprintf(sentence, sizeof sentence, format, list);
  va_end(list);
  fail(line, nullptr, "%s", sentence);
}

}  // namespace msl
