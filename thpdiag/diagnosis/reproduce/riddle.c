#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
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

static char *map(size_t size)
{
    char *raw = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        fail("mmap");
    return (char *)(((unsigned long)raw + HUGE - 1) & ~(HUGE - 1));
}

static void wait_for_signal(void)
{
    sigset_t set;
    int got;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &got);
}

/* Takes each free block of 2 MiB as a huge page and splits it (MADV_FREE of a part does that), lends its last page to a
 * pipe, as a buffer registered for I/O is lent, so that compaction cannot move it, keeps KEPT pages (a power of two) with
 * that one, and gives the rest back: free memory is as useless for huge pages as after months. The first LEAVE bytes stay huge pages
 * and are given back at a signal. All is free again when the program ends. */
static void pin(char *page)
{
    static int into = -1, room;
    struct iovec piece = {page, 4096};
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

static void riddle(size_t room, size_t leave, size_t kept, double limit)
{
    const struct rlimit many = {65536, 65536};
    char *at = map(room);
    int pages = open("/proc/self/pagemap", O_RDONLY);
    double begin = now(), latest;
    size_t offset = 0, apart = HUGE / kept;
    setrlimit(RLIMIT_NOFILE, &many);
    madvise(at, room, MADV_HUGEPAGE); /* compaction takes part, so that what it can free is broken up too */
    for (; offset < leave; offset += HUGE)
        at[offset] = 1;
    latest = now();
    while (offset + HUGE <= room && now() - latest < 3 && now() - begin < limit) {
        char *block = at + offset;
        uint64_t last = 0;
        *block = 1;
        if (pread(pages, &last, 8, ((off_t)block / 4096 + 511) * 8) != 8)
            fail("/proc/self/pagemap");
        if (!(last >> 63)) { /* its last page is not there: no huge page */
            madvise(block, HUGE, MADV_DONTNEED);
            continue;
        }
        latest = now();
        for (size_t page = apart; page <= HUGE; page += apart)
            block[page - 4096] = 1; /* a split gives back pages of zeros */
        madvise(block, 4096, MADV_FREE);
        pin(block + HUGE - 4096); /* the last one, which compaction meets when it has moved the others */
        for (size_t page = 0; page < HUGE; page += apart)
            madvise(block + page, apart - 4096, MADV_DONTNEED);
        offset += HUGE;
    }
    fprintf(stderr, "thp-demo: broke up %zu blocks in %.1f s\n", (offset - leave) / HUGE, now() - begin);
    printf("ready\n");
    fflush(stdout);
    if (leave) {
        wait_for_signal();
        munmap(at, leave);
    }
    pause();
}
