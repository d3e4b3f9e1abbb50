/* Breaks free memory into pieces, as months of uptime do: riddle MIB GRAIN_KIB.
 *
 * Takes MIB in small pages, lends one page of every GRAIN_KIB of physical memory to a pipe (as a buffer registered for I/O
 * is lent: compaction cannot move it), gives the rest back, prints "ready" and sleeps. All is free again when it ends. */
#define _GNU_SOURCE
#include "lab.h"
#include <fcntl.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/uio.h>

static void pin(char *page)
{
    static int ends[2], room;
    struct iovec piece = {page, PAGE};
    if (room-- == 0) {
        if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0)
            die("pipe");
        room = 255;
    }
    if (vmsplice(ends[1], &piece, 1, 0) != (ssize_t)PAGE)
        die("vmsplice");
}

int main(int argc, char **argv)
{
    const struct rlimit many = {65536, 65536};
    size_t size = number(argc, argv, 1) << 20, grain = number(argc, argv, 2) / 4, blocks = (16UL << 30) / PAGE / grain;
    char *at = map(size, MADV_NOHUGEPAGE), *held = calloc(blocks, 1), *stays = calloc(size / PAGE, 1);
    int frames = open("/proc/self/pagemap", O_RDONLY);
    setrlimit(RLIMIT_NOFILE, &many);
    for (size_t page = 0; page < size / PAGE; page++)
        at[page * PAGE] = 1;
    for (size_t page = 0; page < size / PAGE; page++) {
        static uint64_t frame[512];
        off_t from = ((off_t)at / PAGE + page) * 8;
        if (page % 512 == 0 && pread(frames, frame, sizeof frame, from) != sizeof frame)
            die("pagemap");
        size_t block = (frame[page % 512] & ((1UL << 55) - 1)) / grain;
        if (block >= blocks || held[block])
            continue;
        held[block] = stays[page] = 1;
        pin(at + page * PAGE);
    }
    for (size_t page = 0, end; page < size / PAGE; page = end + 1) {
        for (end = page; end < size / PAGE && !stays[end]; end++)
            ;
        if (end > page)
            madvise(at + page * PAGE, (end - page) * PAGE, MADV_DONTNEED);
    }
    say("ready");
    pause();
    return 0;
}
