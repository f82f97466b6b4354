// Memory in numbered places so far from each other that no index leads from one into the next.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine.h"

namespace msl {
namespace {

constexpr unsigned place_bits = 36;
constexpr int places = 256;
constexpr int most_threadgroup_bytes = 32768;
constexpr int most_constant_bytes = 4096;
constexpr unsigned most_declared = 4096;
constexpr int most_variables = 32;

Region regions[places];
int taken = 1;  // Place 0 holds the threads' stacks.
uintptr_t base;
bool touched[places];
size_t touched_bytes;
int arguments[max_bindings];
int constants[max_bindings];
int variables[most_variables];
int variables_taken;
int declared[most_declared];

// Counts memory towards the limit of a threadgroup once in each threadgroup.
void count(int number) {
  if (touched[number]) return;
  touched[number] = true;
  touched_bytes += region(number).end - region(number).start;
  if (touched_bytes > most_threadgroup_bytes)
    fail(0, nullptr, "takes %zu bytes of threadgroup memory, of which there are %d", touched_bytes,
         most_threadgroup_bytes);
}

// The region `number` with a size and a name, made if there is none.
template <class Name> int shared(int& number, size_t bytes, const char* format, Name name) {
  if (bytes > most_threadgroup_bytes)
    fail(0, nullptr, "takes %zu bytes of threadgroup memory, of which there are %d", bytes,
         most_threadgroup_bytes);
  if (!number) {
    number = add_region(threadgroup_space, -1, most_threadgroup_bytes, "%s", "");
    region(number).writable = true;
    watch(region(number));
  }
  Region& given = region(number);
  snprintf(given.name, sizeof given.name, format, name);
  given.end = given.start + bytes;
  return number;
}

}  // namespace

void reserve_memory() {
  void* all = mmap(nullptr, size_t(places) << place_bits, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) fail(0, nullptr, "cannot be run: no address space is left");
  base = uintptr_t(all);
}

int add_region(Space space, int file, size_t bytes, const char* name, ...) {
  if (taken == places) fail(0, nullptr, "takes more than %d buffers", places);
  Region& added = regions[taken];
  va_list list;
  va_start(list, name);
  vsnprintf(added.name, sizeof added.name, name, list);
  va_end(list);
  added.start = base + (uintptr_t(taken) << place_bits) + (uintptr_t(1) << (place_bits - 1));
  added.end = added.start + bytes;
  added.space = space;
  if (bytes >= size_t(1) << (place_bits - 1))
    fail(0, nullptr, "has %s of %zu bytes", added.name, bytes);
  int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  void* at = reinterpret_cast<void*>(added.start);
  if (bytes && mmap(at, bytes, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED)
    fail(0, nullptr, "cannot be run: %s of %zu bytes has no memory", added.name, bytes);
  return taken++;
}

Region& region(int number) { return regions[number]; }

Region* region_at(uintptr_t address) {
  uintptr_t number = (address - base) >> place_bits;
  return number > 0 && number < uintptr_t(taken) ? &regions[number] : nullptr;
}

uintptr_t stacks_start() { return base; }

bool in_stacks(uintptr_t address) { return (address - base) >> place_bits == 0; }

int threadgroup_argument(unsigned index, size_t bytes) {
  return shared(arguments[index], bytes, "threadgroup(%u)", index);
}

int constant_argument(unsigned index, size_t bytes) {
  int& number = constants[index];
  if (!number) number = add_region(device_space, -1, most_constant_bytes, "buffer(%u)", index);
  if (bytes > most_constant_bytes) fail(0, nullptr, "is given %zu bytes as a constant", bytes);
  region(number).end = region(number).start + bytes;
  return number;
}

void forget_threadgroup_memory() {
  for (Region& each : regions)
    if (each.space == threadgroup_space) each.end = each.start;
  memset(declared, 0, sizeof declared);
  variables_taken = 0;
}

void poison_threadgroup_memory() {
  touched_bytes = 0;
  memset(touched, 0, sizeof touched);
  for (int i = 1; i < taken; ++i)
    if (regions[i].space == threadgroup_space)
      memset(reinterpret_cast<void*>(regions[i].start), 0xff, regions[i].end - regions[i].start);
  for (int number : arguments)
    if (number && region(number).end > region(number).start) count(number);
}

void* threadgroup_memory(unsigned key, const char* name, size_t bytes) {
  if (key >= most_declared || variables_taken == most_variables)
    fail(0, nullptr, "has more threadgroup variables than can be run");
  int& number = declared[key];
  if (!number) {
    number = shared(variables[variables_taken++], bytes, "threadgroup variable %s", name);
    memset(reinterpret_cast<void*>(region(number).start), 0xff, bytes);
  }
  count(number);
  return reinterpret_cast<void*>(region(number).start);
}

}  // namespace msl
