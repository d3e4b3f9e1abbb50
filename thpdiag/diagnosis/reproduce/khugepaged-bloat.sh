#!/bin/sh
# Reproduces bloat by khugepaged: an idle program grows, as khugepaged fills its pool of unused buffers with huge pages.
# For TEST hosts only: while it runs, all programs of the host may get huge pages.
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
build <<'PROGRAM'
#include <stdlib.h>
#include <unistd.h>

/* 2400 buffers of 256 KiB that nobody uses: malloc itself touches one page of each. */
int main(int argc, char **argv)
{
    static void *buffers[2400];
    if (argc != 2)
        return 2;
    unsigned seconds = (unsigned)atoi(argv[1]);
    alarm(seconds + 30);
    for (int i = 0; i < 2400; i++)
        buffers[i] = malloc(256 * 1024);
    sleep(seconds);
    return buffers[0] == NULL;
}
PROGRAM
none=511
[ -z "$remedy" ] || none=0
set_knob /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none "$none"
# every second instead of every ten, so that a minute is enough
set_knob /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs 1000
set_knob /sys/kernel/mm/transparent_hugepage/enabled always
start /dev/stdout 700 $((seconds + 4))
program=$!
record "$program"
finish "$program"
