# Memory that is mapped, used once and given back, in huge pages: clearing them is most of the work.
kind=pathology mechanism=huge-page-zeroing
setup() { thp enabled always; thp defrag madvise; }
load() { start churn 2 128 0; }
cure() { thp enabled never; }
