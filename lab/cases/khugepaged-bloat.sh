# khugepaged fills mostly empty ranges into huge pages.
kind=pathology mechanism=khugepaged-bloat
setup() { thp enabled always; thp defrag madvise; khugepaged max_ptes_none 511; khugepaged scan_sleep_millisecs 500; khugepaged pages_to_scan 16384; }
load() { thp enabled never; start sparse 700 256 0; sleep 2; thp enabled always; }
cure() { khugepaged max_ptes_none 0; }
