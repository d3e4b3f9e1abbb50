# Files are read once and fill the page cache.
kind=look-alike mechanism=none
setup() { thp enabled always; file_system; }
load() { start cp /mnt/data /dev/null; }
