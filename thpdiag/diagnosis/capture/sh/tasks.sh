tasks_start() {
    # in the background: ps hangs where a process hangs with its memory lock held
    { run ps.txt ps auxwww; run ps.txt ps -elfL; } &
    child $!
    # the shell itself prints the names, which are too many for one command; those in the root group have no unit
    printf '%s\n' /proc/[0-9]*/cgroup |
        xargs grep -sE '^[0-9]+:((.*,)?memory(,.*)?|name=systemd|):/.' /dev/null >"$dir/process-groups.txt" 2>>"$log"
    if have top; then
        tasks_frames=$((seconds / interval + 1))
        top -b -d "$interval" -n "$tasks_frames" >"$dir/.top" 2>>"$log" &
        child $!
        note "started: top -b -d $interval -n $tasks_frames"
    fi
}

tasks_finish() { # the busiest 60 lines of every frame, and the kernel's huge page threads
    [ -s "$dir/.top" ] || return 0
    echo "# top -b -d $interval -n $tasks_frames" >"$dir/top.txt"
    awk '/^(top - |Mem: )/ { n = 0 } n++ < 67 || /khugepaged|kcompactd|kswapd/' "$dir/.top" >>"$dir/top.txt"
    rm -f "$dir/.top"
}
