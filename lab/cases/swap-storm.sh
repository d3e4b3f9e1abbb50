# More anonymous memory is used than there is, and swapped, in small pages.
kind=look-alike mechanism=swap-storm
setup() { thp enabled never; swap_on; }
load() { start hog 2000 200 1; }
