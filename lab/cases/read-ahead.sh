# The same on memory in pieces: read-ahead asks for large folios and gets small ones.
kind=look-alike mechanism=none
setup() { thp enabled always; thp defrag madvise; riddle 2048; file_system; }
load() { start sh -c 'while cat /mnt/data; do echo 1 >/proc/sys/vm/drop_caches; done >/dev/null'; }
