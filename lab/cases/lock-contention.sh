# Threads wait for the lock of their memory map; huge pages have no part in it.
kind=look-alike mechanism=mmap-lock-convoy
setup() { thp enabled always; }
load() { start remap 8; }
