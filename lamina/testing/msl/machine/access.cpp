// What the compiled program calls before it touches memory, and what it does when it must not.
#include <initializer_list>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "machine.h"

extern "C" const char __executable_start[], end[];

namespace msl {
namespace {

[[noreturn]] void outside(const Region& region, uintptr_t at, size_t bytes, const char* does,
                          const void* code) {
  size_t size = region.end - region.start;
  if (at < region.start)
    fail(0, code, "%s %zu bytes that lie %zu before the start of %s, which has %zu bytes", does,
         bytes, region.start - at, region.name, size);
  fail(0, code, "%s %zu bytes at byte %zu of %s, which has %zu bytes", does, bytes,
       at - region.start, region.name, size);
}

void check(uintptr_t at, size_t bytes, bool write, const void* code) {
  if (!running() || in_stacks(at)) return;
  const char* does = write ? "writes" : "reads";
  Region* found = region_at(at);
  if (!found) {
    uintptr_t image = uintptr_t(__executable_start);
    if (at - image < uintptr_t(end) - image) return;
    fail(0, code, "%s %zu bytes of memory that it was not given", does, bytes);
  }
  if (at < found->start || at + bytes > found->end) outside(*found, at, bytes, does, code);
  if (write && !found->writable)
    fail(0, code, "writes to %s, which it takes as const", found->name);
  if (found->cells) check_race(*found, at, bytes, write, code);
}

void* counter(void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

void signalled(int signal, siginfo_t* info, void* context) {
  void* code = counter(context);
  uintptr_t at = uintptr_t(info->si_addr);
  if (signal == SIGFPE) fail(0, code, "divides an integer by zero");
  if (signal == SIGILL || signal == SIGABRT) fail(0, code, "reaches what must not be reached");
  if (in_stacks(at)) fail(0, code, "takes more memory for one thread than there is");
  if (Region* found = region_at(at)) outside(*found, at, 1, "touches", code);
  fail(0, code, "touches memory that it was not given");
}

}  // namespace

void catch_signals() {
  static char stack[1 << 16];
  stack_t own{};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  sigaltstack(&own, nullptr);
  struct sigaction action{};
  action.sa_sigaction = signalled;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

void check_atomic(const volatile void* at, size_t bytes) {
  uintptr_t address = uintptr_t(at);
  const void* code = __builtin_return_address(0);
  Region* found = region_at(address);
  if (!found) fail(0, code, "has an atomic operation outside of its buffers");
  if (address < found->start || address + bytes > found->end)
    outside(*found, address, bytes, "touches", code);
}

}  // namespace msl

// GCC's -fsanitize=thread puts a call before each access to memory that may be shared.
#define MSL_HOOK(BYTES)                                                                   \
  void __tsan_read##BYTES(void* at) {                                                     \
    msl::check(uintptr_t(at), BYTES, false, __builtin_return_address(0));                 \
  }                                                                                       \
  void __tsan_write##BYTES(void* at) {                                                    \
    msl::check(uintptr_t(at), BYTES, true, __builtin_return_address(0));                  \
  }                                                                                       \
  void __tsan_unaligned_read##BYTES(void* at) {                                           \
    msl::check(uintptr_t(at), BYTES, false, __builtin_return_address(0));                 \
  }                                                                                       \
  void __tsan_unaligned_write##BYTES(void* at) {                                          \
    msl::check(uintptr_t(at), BYTES, true, __builtin_return_address(0));                  \
  }

extern "C" {
MSL_HOOK(1)
MSL_HOOK(2)
MSL_HOOK(4)
MSL_HOOK(8)
MSL_HOOK(16)
void __tsan_read_range(void* at, size_t bytes) {
  msl::check(uintptr_t(at), bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, size_t bytes) {
  msl::check(uintptr_t(at), bytes, true, __builtin_return_address(0));
}
void __tsan_init() {}

// And -fsanitize=alignment,bounds these; the layouts are those of GCC's libsanitizer.
struct UbsanPlace {
  const char* file;
  unsigned line, column;
};
struct UbsanType {
  unsigned short kind, info;
  char name[1];
};
struct UbsanMismatch {
  UbsanPlace place;
  const UbsanType* type;
  unsigned char alignment, how;
};
struct UbsanBounds {
  UbsanPlace place;
  const UbsanType* array;
  const UbsanType* index;
};

void __ubsan_handle_type_mismatch_v1_abort(UbsanMismatch* data, uintptr_t at) {
  const void* code = __builtin_return_address(0);
  unsigned long alignment = 1ul << data->alignment;
  const char* type = data->type->name;
  if (!at) msl::fail(0, code, "follows a null pointer to %s", type);
  if (at & (alignment - 1))
    msl::fail(0, code, "touches %s at an address that is not a multiple of %lu", type, alignment);
  msl::fail(0, code, "touches %s, which is not there in full", type);
}
void __ubsan_handle_out_of_bounds_abort(UbsanBounds* data, uintptr_t index) {
  const void* code = __builtin_return_address(0);
  msl::fail(0, code, "takes element %ld of %s", long(index), data->array->name);
}
}
