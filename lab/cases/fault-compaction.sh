# Page faults compact memory for huge pages and mostly fail, as free memory is in pieces.
kind=pathology mechanism=fault-compaction
setup() { thp enabled always; thp defrag always; riddle 2048; }
load() { start churn 2 200 0; }
cure() { thp defrag never; }
