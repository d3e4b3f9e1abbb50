#!/bin/sh
# Reproduces bloat by khugepaged: an idle program grows, as khugepaged fills its pool of unused buffers with huge pages.
# For TEST hosts only: while it runs, khugepaged looks at memory ten times as often as usual. It has the lowest priority
# of all, so a CPU must have time for it.
#
# mechanism: khugepaged-bloat (rule THP-030)
# memory: 700 MiB at most
# time: 60 s (-s SECONDS)
# knobs: /sys/kernel/mm/transparent_hugepage/enabled, /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none,
#   /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs; put back at the end, also when interrupted
# watch: process_resident_memory_bytes of thp-demo climbs, up to 16 MiB a second, while its page faults and its virtual
#   size stand still; thp_collapse_alloc of /proc/vmstat
# expect: khugepaged-bloat, likely or confirmed
# remedy: -r sets max_ptes_none to 0 as the advice says; resident memory stays as it is and the rule is silent
#
# usage: sh THIS [-s SECONDS] [-c CAPTURE.SH] [-r]
#   -c  records it with this script, which `thpdiag capture-script` has printed
seconds=60
@frame.sh@
need_root
need_memory 1400
need_idle_cpu
build <<'PROGRAM'
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFERS 2400
#define SIZE (256 * 1024)

/* Buffers that nobody uses: malloc itself touches one page of each. They are marked for huge pages afterwards, so that
 * khugepaged has no other program to look at first. */
int main(int argc, char **argv)
{
    static char *buffers[BUFFERS];
    uintptr_t low = UINTPTR_MAX, high = 0;
    if (argc != 2)
        return 2;
    unsigned seconds = (unsigned)atoi(argv[1]);
    alarm(seconds + 30);
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = malloc(SIZE);
        uintptr_t at = (uintptr_t)buffers[i];
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    low &= ~(uintptr_t)4095;
    madvise((void *)low, (high + SIZE - low) & ~(uintptr_t)4095, MADV_HUGEPAGE); /* what is not mapped is left out */
    sleep(seconds);
    return buffers[0] == NULL;
}
PROGRAM
none=511
[ -z "$remedy" ] || none=0
set_knob /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none "$none"
# every second instead of every ten, so that a minute is enough
set_knob /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs 1000
set_knob /sys/kernel/mm/transparent_hugepage/enabled madvise
start /dev/stdout 700 $((seconds + 4))
program=$!
record "$program"
finish "$program"
