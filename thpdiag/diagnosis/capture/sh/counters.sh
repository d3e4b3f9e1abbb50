stat_totals() { # the lines of /proc/stat that do not grow with the number of CPUs and interrupts
    sed -e '/^cpu[0-9]/d' -e 's/^\(intr [0-9]*\).*/\1/' -e 's/^\(softirq [0-9]*\).*/\1/' /proc/stat
}

counters_round() {
    {
        date +%s
        cat /proc/vmstat /proc/buddyinfo /proc/meminfo
        stat_totals
        grep -s . "$thp/enabled" "$thp/defrag" /dev/null
        grep -s . "$thp"/hugepages-*kB/stats/anon_fault_* /dev/null
        grep -s . /sys/kernel/mm/ksm/full_scans /sys/kernel/mm/ksm/pages_sharing /dev/null
        grep -s . /proc/pressure/cpu /proc/pressure/io /proc/pressure/memory /dev/null
    } >>"$dir/loops/counters.txt" 2>>"$log"
}
