# Threads spin in user space.
kind=look-alike mechanism=gc-spinning
setup() { thp enabled always; }
load() { start spin 6; }
