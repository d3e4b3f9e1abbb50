# More page cache and anonymous memory is used than there is; no swap.
kind=look-alike mechanism=memory-pressure
setup() { thp enabled never; file_system; }
load() { start hog 1300 500 1; start sh -c 'while cat /mnt/data; do :; done >/dev/null'; }
