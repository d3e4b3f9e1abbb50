#!/bin/sh
# Reproduces compaction in page faults: free memory is broken into small pieces, then threads map, touch and unmap memory.
# For TEST hosts only, best a virtual machine of a few GiB: no program of the host gets huge pages while it runs. What
# others took meanwhile stays in pieces for a while; dropping the page cache mends most of that.
#
# mechanism: fault-compaction (rule THP-010)
# memory: 2.5 GiB at most, and one page in every 2 MiB of free memory
# time: 60 s (-s SECONDS) after at most 90 s (-w SECONDS) for breaking up the free memory
# knobs: /sys/kernel/mm/transparent_hugepage/enabled, /sys/kernel/mm/transparent_hugepage/defrag; put back at the end,
#   also when interrupted
# watch: compact_stall and compact_fail of /proc/vmstat, tens to hundreds a second; compaction below huge page faults in
#   the profile
# expect: fault-compaction, likely or confirmed; needs perf or the stacks of waiting tasks in the recording
# remedy: -r sets defrag to madvise as the advice says; compact_stall stands still and the rule is silent
#
# usage: sh THIS [-s SECONDS] [-w SECONDS] [-c CAPTURE.SH] [-r]
#   -c  records it with this script, which `thpdiag capture-script` has printed
seconds=60
@frame.sh@
need_root
need_memory 3500
build -pthread <<'PROGRAM'
@riddle.c@
/* Takes each free block of 2 MiB as a huge page, pins its first page and gives the rest back: free memory is as useless for
 * huge pages as after months. All is free again when the program ends. */
static void riddle(size_t room, double limit)
{
    const struct rlimit many = {65536, 65536};
    char *at = map(room); /* compaction takes part, so that what it can free is broken up too */
    int pages = open("/proc/self/pagemap", O_RDONLY);
    double begin = now(), latest = begin;
    size_t offset = 0;
    setrlimit(RLIMIT_NOFILE, &many);
    while (offset + HUGE <= room && now() - latest < 3 && now() - begin < limit) {
        char *block = at + offset;
        if (!touch_huge(block, pages))
            continue;
        latest = now();
        pin(block);
        madvise(block + 4096, HUGE - 4096, MADV_DONTNEED);
        offset += HUGE;
    }
    fprintf(stderr, "thp-demo: broke up %zu blocks in %.1f s\n", offset / HUGE, now() - begin);
    printf(now() - begin < limit ? "ready\n" : "late\n");
    fflush(stdout);
    pause();
}

static _Atomic long regions;

static void *churn(void *size)
{
    for (;;) {
        char *at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            fail("mmap");
        for (size_t offset = 0; offset < (size_t)size; offset += 4096)
            at[offset] = 1;
        munmap(at, (size_t)size);
        regions++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc != 4)
        return 2;
    unsigned seconds = (unsigned)atoi(argv[2]), limit = (unsigned)atoi(argv[3]);
    alarm(seconds + limit + 60);
    if (strcmp(argv[1], "churn") != 0)
        riddle(strtoul(argv[1], NULL, 10) << 20, limit);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, churn, (void *)(1UL << 30));
    sleep(seconds);
    fprintf(stderr, "thp-demo: %.2f GiB/s touched\n", (double)regions / seconds);
    return 0;
}
PROGRAM
set_knob /sys/kernel/mm/transparent_hugepage/defrag always
set_knob /sys/kernel/mm/transparent_hugepage/enabled always
start_riddle "$((2 * $(total_mib)))" "$seconds" "$limit"
[ -z "$remedy" ] || set_knob /sys/kernel/mm/transparent_hugepage/defrag madvise
start /dev/stdout 2500 churn $((seconds + 4)) 0
program=$!
record "$program"
finish "$program"
