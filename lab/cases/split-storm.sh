# An allocator gives single pages back out of huge ones.
kind=pathology mechanism=split-storm
setup() { thp enabled always; thp defrag madvise; }
load() { start holes 128; }
cure() { thp enabled never; }
