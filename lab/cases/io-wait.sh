# A disk of 60 requests a second, and three programs that wait for it.
kind=look-alike mechanism=io-wait
setup() { thp enabled always; }
load() { for at in 0 1000 2000; do start dd if=/dev/zero of=/dev/vdd bs=64k seek=$at count=900 oflag=sync; done; }
