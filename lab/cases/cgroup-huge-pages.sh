# A group with a limit that its program keeps in small pages and exceeds in huge ones.
kind=pathology mechanism=cgroup-bloat
setup() { thp enabled always; thp defrag madvise; swap_on; group 160M; }
load() { start_in_group sparse 700 256 20; }
cure() { thp enabled madvise; }
