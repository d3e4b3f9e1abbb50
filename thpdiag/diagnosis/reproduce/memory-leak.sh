#!/bin/sh
# Reproduces a true leak: a program that allocates, fills and forgets memory. For TEST hosts only.
#
# mechanism: memory-leak (rule ALT-01)
# memory: 640 MiB at most
# time: 60 s (-s SECONDS)
# knobs: none
# watch: process_resident_memory_bytes and process_virtual_memory_bytes of thp-demo grow together, 8 MiB a second, as
#   do its page faults; thp_* and compact_* of /proc/vmstat stand still
# expect: memory-leak, possible in 60 s and likely from 100 s on; nothing about huge pages
# remedy: -r frees the oldest records as a repaired program does; the rule is then silent
#
# usage: sh THIS [-s SECONDS] [-c CAPTURE.SH] [-r]
#   -c  records it with this script, which `thpdiag capture-script` has printed
seconds=60
@frame.sh@
[ "$seconds" -le 70 ] || pace="$((560 / seconds))"
need_memory 1280
build <<'PROGRAM'
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Records of 4000 bytes, PACE MiB of them a second for SECONDS, are forgotten; with KEPT above 0 only so many stay. */
int main(int argc, char **argv)
{
    const struct timespec tick = {0, 50000000};
    if (argc != 4)
        return 2;
    long seconds = atol(argv[1]), pace = atol(argv[2]), kept = atol(argv[3]);
    char **ring = calloc(kept + 1, sizeof *ring);
    alarm(seconds + 30);
    for (long turn = 0, at = 0; turn < seconds * 20; turn++) {
        for (long i = 0; i < pace * 262 / 20; i++) {
            char *text = malloc(4000);
            if (!text || !ring)
                return 1;
            memset(text, (int)turn, 4000);
            if (kept) {
                free(ring[at % kept]);
                ring[at++ % kept] = text;
            }
        }
        nanosleep(&tick, NULL);
    }
    return 0;
}
PROGRAM
kept=0
[ -z "$remedy" ] || kept=4000
start /dev/stdout 640 $((seconds + 4)) "${pace:-8}" "$kept"
program=$!
record "$program"
finish "$program"
