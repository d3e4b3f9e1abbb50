zones_start() {
    copy /proc/meminfo /proc/buddyinfo /proc/vmstat /proc/zoneinfo /proc/pagetypeinfo /proc/slabinfo
    copy /sys/kernel/debug/extfrag/unusable_index /sys/kernel/debug/extfrag/extfrag_index
}
