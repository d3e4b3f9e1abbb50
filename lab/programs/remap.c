/* Threads of one process that change the protection of their own 1 MiB over and over: all want the lock of the one memory
 * map. Small pages only, so huge pages have no part in it: remap THREADS. */
#include "lab.h"

static void *remap(void *unused)
{
    const size_t size = 1UL << 20;
    char *at = map(size, MADV_NOHUGEPAGE);
    for (size_t offset = 0; offset < size; offset += PAGE)
        at[offset] = 1;
    for (;;) {
        mprotect(at, size, PROT_READ);
        mprotect(at, size, PROT_READ | PROT_WRITE);
        at[0]++;
        at[size / 2]++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    for (unsigned long i = number(argc, argv, 1); i > 0; i--)
        pthread_create(&thread, NULL, remap, NULL);
    pause();
    return 0;
}
