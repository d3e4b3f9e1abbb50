# khugepaged scans without a pause what it may not collapse.
kind=pathology mechanism=khugepaged-cpu perf=755
setup() { thp enabled always; khugepaged max_ptes_none 0; khugepaged scan_sleep_millisecs 0; khugepaged pages_to_scan 1000000; }
load() { thp enabled never; start sparse 1000 16 0; sleep 2; thp enabled always; }
cure() { khugepaged scan_sleep_millisecs 10000; khugepaged pages_to_scan 4096; }
