#!/bin/sh
# Reproduces the allocation knee: free memory is broken into small pieces except for 2.5 GiB, then a program fills 3.5 GiB,
# the first part at full speed. For TEST hosts only, best a virtual machine of some GiB: no program of the host gets huge
# pages while it runs.
#
# mechanism: allocation-knee (rule THP-020)
# memory: 3.5 GiB, and a sixteenth of the free memory
# time: 60 s (-s SECONDS) after at most 45 s (-w SECONDS) for breaking up the free memory
# knobs: /sys/kernel/mm/transparent_hugepage/enabled, /sys/kernel/mm/transparent_hugepage/defrag; put back at the end,
#   also when interrupted
# watch: process_resident_memory_bytes of thp-demo bends at 2.5 GiB; from there on compact_stall and compact_fail of
#   /proc/vmstat rise
# expect: allocation-knee, likely or confirmed
# remedy: -r sets defrag to never as the advice says; compact_stall stands still and the rule is silent
#
# usage: sh THIS [-s SECONDS] [-w SECONDS] [-c CAPTURE.SH] [-r]
#   -c  records it with this script, which `thpdiag capture-script` has printed
seconds=60
interval=1 # the first part takes less than a second
@frame.sh@
need_root
need_memory 5500
build <<'PROGRAM'
@riddle.c@
static void grow(size_t size)
{
    char *at = map(size);
    double begin = now();
    madvise(at, size, MADV_HUGEPAGE);
    wait_for_signal();
    begin = now();
    for (size_t offset = 0; offset < size; offset += 4096) {
        at[offset] = 1;
        if (offset % (256UL << 20) == 0)
            fprintf(stderr, "thp-demo: %lu MiB after %.1f s\n", (unsigned long)offset >> 20, now() - begin);
    }
    fprintf(stderr, "thp-demo: all after %.1f s\n", now() - begin);
}

int main(int argc, char **argv)
{
    sigset_t set;
    if (argc != 4)
        return 2;
    unsigned seconds = (unsigned)atoi(argv[2]), limit = (unsigned)atoi(argv[3]);
    alarm(seconds + limit + 60);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (strcmp(argv[1], "grow") != 0)
        riddle(strtoul(argv[1], NULL, 10) << 20, 2560UL << 20, 32, limit);
    grow(3584UL << 20);
    sleep(seconds);
    return 0;
}
PROGRAM
set_knob /sys/kernel/mm/transparent_hugepage/defrag always
set_knob /sys/kernel/mm/transparent_hugepage/enabled always
start_riddle "$((2 * $(total_mib)))" "$seconds" "$limit"
riddler=$!
[ -z "$remedy" ] || set_knob /sys/kernel/mm/transparent_hugepage/defrag never
start /dev/stdout 4500 grow "$seconds" 0
program=$!
record "$program"
# the recording has to see the begin
sleep 5
# at once: the host of a virtual machine may take back what is free for seconds
kill -USR1 "$riddler" "$program" || true
finish "$program"
