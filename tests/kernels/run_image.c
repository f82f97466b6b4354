/* Runs the kernel `kernel`, linked in under that name, on an image of memory: `run_image IN OUT`.
 *
 * IN is eight words of 64 bits and the image: the address that the image is for, its size, the
 * addresses in it of the kernel's arguments, scratch memory and error word, and three extents of
 * the grid. OUT is the image as every program of the grid has left it, one after another.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

struct header { uint64_t base, size, arguments, scratch, error, grid[3]; };
struct worker { int64_t program[3]; uint64_t scratch, error; };

void kernel(uint64_t arguments, struct worker *worker);

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int count, char **names)
{
    struct header head;
    FILE *in = count == 3 ? fopen(names[1], "rb") : NULL;
    if (!in || fread(&head, sizeof head, 1, in) != 1)
        return fail("run_image: the header");
    void *image = mmap((void *)head.base, head.size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (image != (void *)head.base || fread(image, 1, head.size, in) != head.size)
        return fail("run_image: the image");

    for (uint64_t i = 0; i < head.grid[0]; i++)
        for (uint64_t j = 0; j < head.grid[1]; j++)
            for (uint64_t k = 0; k < head.grid[2]; k++) {
                struct worker worker = {{i, j, k}, head.scratch, head.error};
                kernel(head.arguments, &worker);
            }

    FILE *out = fopen(names[2], "wb");
    if (!out || fwrite(image, 1, head.size, out) != head.size || fclose(out))
        return fail("run_image: the result");
    return 0;
}
