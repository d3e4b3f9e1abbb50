cpu_start() {
    cpu_rows=$((seconds / 2 + 1))
    if have vmstat; then
        date +%s >"$dir/vmstat.txt"
        echo "# vmstat -n 2 $cpu_rows" >>"$dir/vmstat.txt"
        vmstat -n 2 "$cpu_rows" >>"$dir/vmstat.txt" 2>>"$log" &
        child $!
        note "started: vmstat -n 2 $cpu_rows"
    fi
    if have mpstat; then
        cpu_rows=$(((seconds + interval - 1) / interval))
        echo "# mpstat -P ALL $interval $cpu_rows" >"$dir/mpstat.txt"
        mpstat -P ALL "$interval" "$cpu_rows" >>"$dir/mpstat.txt" 2>>"$log" &
        child $!
        note "started: mpstat -P ALL $interval $cpu_rows"
    fi
}
