// Does what the lines of its standard input ask for, on the files that it inherited.
#include <stdio.h>
#include <string.h>

#include "machine.h"

namespace msl {
namespace {

constexpr int most_buffers = 200;
int buffers[most_buffers];
int buffer_count;
unsigned schedule, seed;
Launch launch;

[[noreturn]] void misunderstood() { fail(0, nullptr, "was asked for in a way it does not know"); }

void buffer() {
  int file;
  size_t bytes;
  if (buffer_count == most_buffers || scanf("%d %zu", &file, &bytes) != 2) misunderstood();
  buffers[buffer_count++] = add_region(device_space, file, bytes, "a buffer");
}

void begin() {
  char name[256];
  unsigned after_a_barrier;
  unsigned* g = launch.place.groups;
  unsigned* t = launch.place.threads;
  if (scanf("%255s %u %u %u %u", name, &after_a_barrier, g, g + 1, g + 2) != 5) misunderstood();
  if (scanf("%u %u %u", t, t + 1, t + 2) != 3) misunderstood();
  launch.kernel = kernels;
  while (launch.kernel->name && strcmp(launch.kernel->name, name)) ++launch.kernel;
  if (!launch.kernel->name) misunderstood();
  launch.arguments = {};
  launch.schedule = Schedule(schedule);
  forget_threadgroup_memory();
  for (int i = 0; i < buffer_count; ++i) {
    region(buffers[i]).writable = false;
    region(buffers[i]).name[0] = 0;
  }
  begin_launch(after_a_barrier);
}

void bind() {
  unsigned index, number, writable;
  size_t offset;
  if (scanf("%u %u %zu %u", &index, &number, &offset, &writable) != 4) misunderstood();
  if (index >= max_bindings || number >= unsigned(buffer_count)) misunderstood();
  Region& bound = region(buffers[number]);
  // A buffer may be bound more than once.
  size_t named = strlen(bound.name);
  const char* format = named ? " and buffer(%u)" : "buffer(%u)";
  snprintf(bound.name + named, sizeof bound.name - named, format, index);
  bound.writable |= writable;
  if (bound.writable) watch(bound);
  launch.arguments.buffers[index] = reinterpret_cast<void*>(bound.start + offset);
}

// Two digits for each byte.
void bytes() {
  unsigned index, byte;
  size_t size;
  if (scanf("%u %zu ", &index, &size) != 2 || index >= max_bindings) misunderstood();
  const Region& given = region(constant_argument(index, size));
  auto to = reinterpret_cast<unsigned char*>(given.start);
  for (size_t i = 0; i < size; ++i) {
    if (scanf("%2x", &byte) != 1) misunderstood();
    to[i] = byte;
  }
  launch.arguments.buffers[index] = to;
}

void memory() {
  unsigned index;
  size_t bytes;
  if (scanf("%u %zu", &index, &bytes) != 2 || index >= max_bindings) misunderstood();
  const Region& given = region(threadgroup_argument(index, bytes));
  launch.arguments.threadgroups[index] = reinterpret_cast<void*>(given.start);
}

}  // namespace

}  // namespace msl

int main() {
  using namespace msl;
  reserve_memory();
  catch_signals();
  unsigned races;
  if (scanf("%u %u %u", &schedule, &seed, &races) != 3) misunderstood();
  watch_races(races);
  char word[16];
  while (scanf("%15s", word) == 1) {
    if (!strcmp(word, "buffer")) buffer();
    else if (!strcmp(word, "launch")) begin();
    else if (!strcmp(word, "bind")) bind();
    else if (!strcmp(word, "bytes")) bytes();
    else if (!strcmp(word, "memory")) memory();
    else if (!strcmp(word, "run")) run(launch, seed);
    else misunderstood();
  }
  return 0;
}
