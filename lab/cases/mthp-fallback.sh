# Huge pages of 64 KiB are wanted, memory is in smaller pieces, and faults compact for them.
kind=pathology mechanism=mthp
setup() { thp enabled always; thp defrag always; thp hugepages-2048kB/enabled never; thp hugepages-64kB/enabled always; riddle 64; }
load() { start churn 2 200 0; }
cure() { thp hugepages-64kB/enabled never; }
