// What the program of a Metal text and the machine that runs it know of each other.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace msl {

constexpr unsigned simd_width = 32;
constexpr unsigned max_bindings = 31;
constexpr unsigned slot_bytes = 128;

// Where a thread is; the machine sets it before the thread runs.
struct Place {
  unsigned threads[3];
  unsigned groups[3];
  unsigned group[3];
  unsigned thread_at[3];
  unsigned index;

  unsigned count() const { return threads[0] * threads[1] * threads[2]; }
  unsigned lane() const { return index % simd_width; }
  unsigned simdgroup() const { return index / simd_width; }
  unsigned lanes() const {
    unsigned rest = count() - simdgroup() * simd_width;
    return rest < simd_width ? rest : simd_width;
  }
};

// Pointers by the number that an argument's attribute gives.
struct Arguments {
  void* buffers[max_bindings];
  void* threadgroups[max_bindings];
};

struct Kernel {
  const char* name;
  void (*call)(const Arguments&, const Place&);
};

// Every kernel of the program; the last one has no name.
extern const Kernel kernels[];

// The thread that runs now.
const Place& here();

// Ends the process with a sentence about the thread that runs now, formatted as by printf.
[[noreturn]] void die(int line, const char* format, ...);

// Gives `value` to the other lanes of the simdgroup, and waits until they have given theirs: the
// value of lane i then lies i * slot_bytes after the address returned.
const char* exchange(const char* what, int line, const void* value, unsigned bytes);

// Waits for all threads; orders accesses to device memory, to threadgroup memory, or to both.
void threadgroup_barrier(int line, bool device, bool threadgroup);
void simdgroup_barrier(int line, bool device, bool threadgroup);

// Declared threadgroup memory, which the machine keeps; `key` is a number of the program's own.
void* threadgroup_memory(unsigned key, const char* name, size_t bytes);

// Sees that an atomic access is within its memory.
void check_atomic(const volatile void* at, size_t bytes);

}  // namespace msl
