# A program that touches one page in 2 MiB gets all 512.
kind=pathology mechanism=first-touch-bloat
setup() { thp enabled always; thp defrag madvise; }
load() { start sparse 1000 2048 24; }
cure() { thp enabled madvise; }
