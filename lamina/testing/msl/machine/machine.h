// The parts of the machine: its memory, what threads did to it, and whose turn it is.
#pragma once
#include "../shim/runtime.h"

namespace msl {

enum Space { device_space, threadgroup_space, spaces };

// A piece of memory between pages that nobody may touch; empty where the number is not taken.
struct Region {
  char name[64];
  uintptr_t start, end;
  Space space;
  bool writable;
  struct Cell* cells;
};

// memory.cpp
void reserve_memory();
// Maps `bytes` of the file, or of nothing; `name` is formatted as by printf.
int add_region(Space space, int file, size_t bytes, const char* name, ...);
Region& region(int number);
Region* region_at(uintptr_t address);
uintptr_t stacks_start();
bool in_stacks(uintptr_t address);
void poison_threadgroup_memory();
int threadgroup_argument(unsigned index, size_t bytes);
int constant_argument(unsigned index, size_t bytes);
void forget_threadgroup_memory();

// races.cpp
void watch_races(bool wanted);
void watch(Region& region);
void begin_launch(bool after_a_barrier);
void begin_group();
void order_group(Space space);
void order_simdgroup(Space space);
void check_race(const Region& region, uintptr_t at, size_t bytes, bool write, const void* code);

// access.cpp
void catch_signals();

// schedule.cpp
enum Schedule { forward, reverse, random_order, simdgroup_forward, simdgroup_reverse };
struct Launch {
  const Kernel* kernel;
  Arguments arguments;
  Place place;
  Schedule schedule;
};
void run(Launch& launch, unsigned seed);
bool running();
const char* running_kernel();
Place& place();

// Ends the process: the kernel, the line or else the code that did it, and the sentence.
[[noreturn]] void fail(int line, const void* code, const char* format, ...);

}  // namespace msl
