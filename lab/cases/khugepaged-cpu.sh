# khugepaged scans without a pause what it may not collapse.
kind=pathology mechanism=khugepaged-cpu
setup() { thp enabled always; khugepaged max_ptes_none 0; khugepaged scan_sleep_millisecs 0; khugepaged pages_to_scan 1000000; }
load() { start buffers 6000 140; }
cure() { khugepaged scan_sleep_millisecs 10000; khugepaged pages_to_scan 4096; }
