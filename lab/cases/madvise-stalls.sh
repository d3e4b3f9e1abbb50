# The same where only the program that asked for huge pages waits for them.
kind=pathology mechanism=madvise-region-stalls perf=755
setup() { thp enabled madvise; thp defrag madvise; riddle 2048; }
load() { start churn 2 200 1; }
cure() { thp defrag never; }
