groups_read() { # memory of at most 100 control groups; all of memory.stat would be long, and most of it is no use here
    {
        date +%s
        while read -r groups_stat; do
            groups_of=${groups_stat%/memory.stat}
            grep -sE '^(anon|anon_thp|file|shmem|(in)?active_anon|swapcached|thp_[a-z_]*|pglazyfreed?|total_(rss|rss_huge|cache|shmem|(in)?active_anon|swapcached)) ' \
                "$groups_stat" /dev/null
            grep -s . "$groups_of/memory.max" "$groups_of/memory.high" "$groups_of/memory.current" "$groups_of/memory.events" \
                "$groups_of/memory.limit_in_bytes" "$groups_of/memory.usage_in_bytes" "$groups_of/memory.failcnt" /dev/null
        done <"$dir/.groups"
    } >>"$dir/loops/groups.txt" 2>>"$log"
}

groups_start() {
    find /sys/fs/cgroup /cgroup -name memory.stat 2>/dev/null | head -n 100 >"$dir/.groups"
    groups_read
}

groups_finish() {
    groups_read
    rm -f "$dir/.groups"
}
