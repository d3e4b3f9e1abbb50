# Huge pages are split and swapped, as more is used than there is.
kind=pathology mechanism=huge-page-swap
setup() { thp enabled always; thp defrag madvise; swap_on; }
load() { start hog 2000 200 1; }
cure() { thp enabled never; }
