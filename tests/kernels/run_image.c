/* Runs the kernel `kernel`, linked in under that name, on an image of memory: `run_image IN OUT`.
 *
 * IN is eight words of 64 bits and the image: the address that the image is for, its size, the
 * addresses in it of the kernel's arguments, scratch memory and error word, and three extents of
 * the grid. OUT is the image as every program of the grid has left it, one after another.
 *
 * It asks Linux itself: without a C library, a program is linked in an instant.
 */
#include <stdint.h>

enum { OPENAT = 56, READ = 63, WRITE = 64, EXIT = 94, MMAP = 222 };
enum { HERE = -100, NEW = 01 | 0100 | 01000, READ_WRITE = 3, PRIVATE_FIXED = 0x100022 };

struct header { uint64_t base, size, arguments, scratch, error, grid[3]; };
struct worker { int64_t program[3]; uint64_t scratch, error; };

void kernel(uint64_t arguments, struct worker *worker);

static long ask(long call, long a, long b, long c, long d, long e)
{
    register long x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = 0;
    register long x8 __asm__("x8") = call;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8)
                     : "memory");
    return x0;
}

static void need(int met, const char *what, long length)
{
    if (!met) {
        ask(WRITE, 2, (long)what, length, 0, 0);
        ask(EXIT, 1, 0, 0, 0, 0);
    }
}

#define NEED(met, what) need(met, "run_image: " what "\n", sizeof "run_image: " what)

static int whole(long call, long file, char *start, uint64_t size)
{
    while (size) {
        long some = ask(call, file, (long)start, size, 0, 0);
        if (some <= 0)
            return 0;
        start += some;
        size -= some;
    }
    return 1;
}

void begin(long *stack)
{
    struct header head;
    char **names = (char **)(stack + 1);
    NEED(stack[0] == 3, "IN and OUT are missing");
    long in = ask(OPENAT, HERE, (long)names[1], 0, 0, 0);
    NEED(whole(READ, in, (char *)&head, sizeof head), "the header cannot be read");
    long image = ask(MMAP, head.base, head.size, READ_WRITE, PRIVATE_FIXED, -1);
    NEED(image == (long)head.base, "there is no room at the address of the image");
    NEED(whole(READ, in, (char *)image, head.size), "the image cannot be read");

    for (uint64_t i = 0; i < head.grid[0]; i++)
        for (uint64_t j = 0; j < head.grid[1]; j++)
            for (uint64_t k = 0; k < head.grid[2]; k++) {
                struct worker worker = {{i, j, k}, head.scratch, head.error};
                kernel(head.arguments, &worker);
            }

    long out = ask(OPENAT, HERE, (long)names[2], NEW, 0600, 0);
    NEED(whole(WRITE, out, (char *)image, head.size), "the result cannot be written");
    ask(EXIT, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n    mov x0, sp\n    bl begin\n");
