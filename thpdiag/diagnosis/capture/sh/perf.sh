perf_data=

perf_try() { # perf_try OPTION...: whether this perf and this kernel can record like that
    perf record -a -g -F 99 "$@" -o "$dir/.perf.try" -- true >/dev/null 2>>"$log" && perf_options=$*
}

perf_start() {
    have perf || {
        note 'skipped, no such command: perf (package perf, linux-perf or linux-tools)'
        return 0
    }
    # -N: leave no copies of programs in ~/.debug; cpu-clock: where there is no hardware counter
    perf_try -N || perf_try || perf_try -N -e cpu-clock || perf_try -e cpu-clock || {
        note 'skipped, perf record does not work here; the reason is above'
        rm -f "$dir/.perf.try"
        return 0
    }
    rm -f "$dir/.perf.try"
    perf_cpus=$(grep -c '^processor' /proc/cpuinfo)
    perf_seconds=30
    [ "$perf_cpus" -le 64 ] || perf_seconds=$((1920 / perf_cpus + 5)) # keeps the text below some 200 MB
    [ "$perf_seconds" -le "$seconds" ] || perf_seconds=$seconds
    has_room 500000 || {
        note "skipped, perf record: only $room_free kB free"
        return 0
    }
    perf_data=$dir/perf.data
    # options without blanks, to be split
    # shellcheck disable=SC2086
    perf record -a -g -F 99 $perf_options -o "$perf_data" -- sleep "$perf_seconds" >/dev/null 2>>"$log" &
    perf_pid=$!
    child "$perf_pid"
    note "started: perf record -a -g -F 99 $perf_options -- sleep $perf_seconds"
}

perf_text() {
    gently perf script -i "$perf_data" "$@" >"$dir/perf-script.txt" 2>>"$log"
    note "exit $?: perf script $*"
    [ -s "$dir/perf-script.txt" ]
}

perf_finish() {
    [ -n "$perf_data" ] || return 0
    perf_left=60 # a busy host takes long to write the end of the recording, and without it nothing can be read
    while [ "$perf_left" -gt 0 ] && lives "$perf_pid"; do
        sleep 1
        perf_left=$((perf_left - 1))
    done
    perf_fields=comm,pid,tid,cpu,time,event,ip,sym,dso
    # --no-inline from 4.15, -F from 4.1, before that -f
    perf_text --no-inline -F $perf_fields || perf_text -F $perf_fields || perf_text -f $perf_fields || perf_text ||
        note 'perf script gave nothing'
    [ -n "$keep" ] || [ ! -s "$dir/perf-script.txt" ] || rm -f "$perf_data"
}
