# Faults do not wait: kcompactd works for them, and memory is in pieces.
kind=pathology mechanism=background-compaction
setup() { thp enabled always; thp defrag defer; riddle 2048; }
load() { start churn 2 200 0; }
cure() { thp defrag never; }
