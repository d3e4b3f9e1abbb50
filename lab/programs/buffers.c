/* Buffers that nobody uses: buffers COUNT KIB. malloc itself touches the first page of each; they lie side by side, so that
 * khugepaged finds ranges of 2 MiB with a few pages in them. */
#include "lab.h"

int main(int argc, char **argv)
{
    unsigned long count = number(argc, argv, 1), size = number(argc, argv, 2) << 10;
    void **buffers = calloc(count, sizeof *buffers);
    for (unsigned long i = 0; buffers && i < count; i++)
        buffers[i] = malloc(size);
    pause();
    return buffers == NULL;
}
