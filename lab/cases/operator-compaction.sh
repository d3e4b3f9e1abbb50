# Somebody's loop writes to compact_memory.
kind=look-alike mechanism=operator-compaction
setup() { thp enabled madvise; riddle 2048; }
load() { start sh -c 'while sleep 0.05; do echo 1 >/proc/sys/vm/compact_memory; done'; }
