/* -- what the programs share that break up free memory -- */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HUGE (2UL << 20)

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* A mapping that begins with a huge page and asks for huge pages, so that page faults may compact memory for them. */
static char *map(size_t size)
{
    char *raw = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        fail("mmap");
    char *at = (char *)(((unsigned long)raw + HUGE - 1) & ~(HUGE - 1));
    madvise(at, size, MADV_HUGEPAGE);
    return at;
}

/* Touches a block; whether a huge page came, by its last page in /proc/self/pagemap. What else came is given back. */
static int touch_huge(char *block, int pagemap)
{
    uint64_t last = 0;
    *block = 1;
    if (pread(pagemap, &last, 8, ((off_t)block / 4096 + 511) * 8) != 8)
        fail("/proc/self/pagemap");
    if (!(last >> 63))
        madvise(block, HUGE, MADV_DONTNEED);
    return last >> 63;
}

/* Splits a huge page (MADV_FREE of a part does that) and lends its first page to a pipe, as a buffer registered for I/O is
 * lent, so that compaction cannot move it. */
static void pin(char *block)
{
    static int into = -1, room;
    struct iovec piece = {block, 4096};
    madvise(block + 4096, 4096, MADV_FREE);
    if (room == 0) {
        int ends[2];
        if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0)
            fail("pipe");
        into = ends[1];
        room = 256;
    }
    if (vmsplice(into, &piece, 1, 0) != 4096)
        fail("vmsplice");
    room--;
}
/* -- end of what they share -- */
