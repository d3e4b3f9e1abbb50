/* Work with many call stacks, for bench/recording.py: huge pages touched and given back, forks, calls of changing depth.
 *
 *     cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread -o hog hog.c && ./hog SECONDS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024L * 1024)
#define DEEP(name, next) \
    static __attribute__((noinline)) unsigned name(unsigned bits, int depth) \
    { \
        volatile unsigned sum = bits; \
        for (int i = 0; i < 40; i++) \
            sum = sum * 2654435761u + depth; \
        return depth ? sum + next(bits >> 1, depth - 1) : sum; \
    }

static double until;

static unsigned step(unsigned bits, int depth);
DEEP(lookup, step)
DEEP(insert, step)
DEEP(rebalance, step)
DEEP(compare, step)

static __attribute__((noinline)) unsigned step(unsigned bits, int depth)
{
    switch (bits & 3) {
    case 0: return lookup(bits, depth) + 1;
    case 1: return insert(bits, depth) + 2;
    case 2: return rebalance(bits, depth) + 3;
    default: return compare(bits, depth) + 4;
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static char *room(long size)
{
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    return p;
}

static void *touch(void *huge)
{
    prctl(PR_SET_NAME, huge ? "hog worker 2" : "hog worker 4k");
    while (now() < until) {
        char *p = room(128 * MIB);
        madvise(p, 128 * MIB, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        for (long i = 0; i < 128 * MIB; i += 4096)
            p[i] = 1;
        madvise(p, 64 * MIB, MADV_DONTNEED);
        for (long i = 0; i < 64 * MIB; i += 8192)
            p[i] = 1;
        munmap(p, 128 * MIB);
    }
    return NULL;
}

static void *compute(void *name)
{
    unsigned seed = 1, sum = 0;
    prctl(PR_SET_NAME, name);
    while (now() < until)
        for (int i = 0; i < 1000; i++)
            sum += step(rand_r(&seed), 4 + rand_r(&seed) % 10);
    return sum == 1 ? "" : NULL;
}

static void *churn(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "7 forks: 3");
    while (now() < until) {
        pid_t child = fork();
        if (child == 0) {
            char *p = room(2 * MIB);
            memset(p, 1, 2 * MIB);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return NULL;
}

static void *compact(void *unused)
{
    int fd = open("/proc/sys/vm/compact_memory", O_WRONLY);
    (void)unused;
    prctl(PR_SET_NAME, "compactor");
    while (fd >= 0 && now() < until) {
        if (write(fd, "1", 1) != 1)
            break;
        usleep(400000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[6];
    until = now() + (argc > 1 ? atof(argv[1]) : 1);
    pthread_create(&t[0], NULL, touch, "huge");
    pthread_create(&t[1], NULL, touch, NULL);
    pthread_create(&t[2], NULL, compute, "hog worker 5");
    pthread_create(&t[3], NULL, compute, "V8 Worker");
    pthread_create(&t[4], NULL, churn, NULL);
    pthread_create(&t[5], NULL, compact, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    return 0;
}
