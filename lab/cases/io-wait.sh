# A disk of 60 requests a second, and three programs that wait for it.
kind=look-alike mechanism=io-wait
setup() { thp enabled always; }
load() { for at in 0 1000 2000; do start sh -c "while dd if=/dev/zero of=/dev/vdd bs=64k seek=$at count=8 conv=fsync,notrunc; do :; done"; done; }
