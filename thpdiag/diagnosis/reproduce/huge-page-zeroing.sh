#!/bin/sh
# Reproduces allocation churn: threads map memory, touch it and give it back, and the kernel clears a huge page for each
# 2 MiB. For TEST hosts only: while it runs, all programs of the host may get huge pages.
#
# mechanism: huge-page-zeroing (rules THP-041 and, with a profile, THP-040)
# memory: 600 MiB at most
# time: 60 s (-s SECONDS)
# knobs: /sys/kernel/mm/transparent_hugepage/enabled; put back at the end, also when interrupted
# watch: thp_fault_alloc of /proc/vmstat, hundreds a second, while nr_anon_transparent_hugepages stays low; system time
#   far above user time; clear_page in the profile
# expect: huge-page-zeroing, likely
# remedy: -r sets enabled to never as the advice says; thp_fault_alloc stands still and the rules are silent. Kernel time
#   stays high, as small pages have to be cleared too
#
# usage: sh THIS [-s SECONDS] [-c CAPTURE.SH] [-r]
#   -c  records it with this script, which `thpdiag capture-script` has printed
seconds=60
@frame.sh@
need_root
need_memory 1200
build -pthread <<'PROGRAM'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION (128UL << 20)

static _Atomic long regions;

static void *churn(void *unused)
{
    for (;;) {
        char *at = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            exit(1);
        for (size_t offset = 0; offset < REGION; offset += 4096)
            at[offset] = 1;
        munmap(at, REGION);
        regions++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc != 2)
        return 2;
    unsigned seconds = (unsigned)atoi(argv[1]);
    alarm(seconds + 30);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, churn, NULL);
    sleep(seconds);
    printf("thp-demo: %.2f GiB/s touched\n", (double)regions / 8 / seconds);
    return 0;
}
PROGRAM
policy=always
[ -z "$remedy" ] || policy=never
set_knob /sys/kernel/mm/transparent_hugepage/enabled "$policy"
start /dev/stdout 1000 $((seconds + 4))
program=$!
record "$program"
finish "$program"
