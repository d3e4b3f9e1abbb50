# System calls that have nothing to do with memory.
kind=look-alike mechanism=plain-syscall-load
setup() { thp enabled always; }
load() { start syscalls 2; }
