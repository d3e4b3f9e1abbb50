/* What the programs of the lab share. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGE (2UL << 20)
#define PAGE 4096UL

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static inline unsigned long number(int argc, char **argv, int at)
{
    if (at >= argc)
        exit(2);
    return strtoul(argv[at], NULL, 10);
}

/* A mapping that begins at a multiple of 2 MiB, with that advice; MADV_NORMAL leaves it to the setting. */
static inline char *map(size_t size, int advice)
{
    char *raw = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        die("mmap");
    char *at = (char *)(((unsigned long)raw + HUGE - 1) & ~(HUGE - 1));
    madvise(at, size, advice);
    return at;
}

static inline void rest(long milliseconds)
{
    const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static inline void say(const char *what)
{
    puts(what);
    fflush(stdout);
}
