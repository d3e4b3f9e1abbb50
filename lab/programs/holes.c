/* An allocator that gives single pages back out of what it holds, and takes them again: holes MIB. Each 4 KiB that is given
 * back splits a huge page. */
#include "lab.h"

int main(int argc, char **argv)
{
    size_t size = number(argc, argv, 1) << 20;
    for (;;) {
        char *at = map(size, MADV_NORMAL);
        for (size_t offset = 0; offset < size; offset += PAGE)
            at[offset] = 1;
        for (size_t offset = 7 * PAGE; offset < size; offset += HUGE / 4)
            madvise(at + offset, PAGE, MADV_DONTNEED);
        munmap(at, size);
    }
}
