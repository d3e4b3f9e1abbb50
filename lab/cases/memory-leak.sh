# Small records that nobody frees.
kind=look-alike mechanism=memory-leak
setup() { thp enabled madvise; }
load() { start hog 1200 25 0; }
