# khugepaged fills mostly empty ranges into huge pages.
kind=pathology mechanism=khugepaged-bloat
setup() { thp enabled always; thp defrag madvise; khugepaged max_ptes_none 511; khugepaged scan_sleep_millisecs 500; khugepaged pages_to_scan 16384; }
load() { start buffers 2400 256; }
cure() { khugepaged max_ptes_none 0; }
