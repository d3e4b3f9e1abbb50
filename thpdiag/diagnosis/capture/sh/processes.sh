watched=
smaps_job=

all_stats() { # /proc/PID/stat of every process; a shell loop, since thousands of names are too long for one command
    for stats_file in /proc/[0-9]*/stat; do
        read -r stats_line <"$stats_file" && echo "$stats_line"
    done 2>/dev/null
}

choose() { # prints pids: the 15 largest, the 5 that used most CPU in the last second, the kernel's huge page threads
    all_stats >"$dir/.before"
    sleep 1
    all_stats >"$dir/.after"
    awk -v self=$$ '
        { pid = $1; comm = $0; sub(/^[0-9]+ \(/, "", comm); sub(/\) [A-Za-z] .*/, "", comm); sub(/^.*\) /, "") }
        NF < 22 || pid == self || $2 == self { next }
        FILENAME ~ /before$/ { before[pid] = $12 + $13; next }
        comm ~ /^(khugepaged|kcompactd[0-9]+|kswapd[0-9]+)$/ { print pid, 1, 0; next }
        { print pid, $22 + 0, (pid in before) ? $12 + $13 - before[pid] : 0 }
    ' "$dir/.before" "$dir/.after" >"$dir/.sizes"
    {
        awk '$2 > 1' "$dir/.sizes" | sort -k2,2nr | head -n 15
        awk '$3 > 0' "$dir/.sizes" | sort -k3,3nr | head -n 5
        awk '$2 == 1' "$dir/.sizes"
    } | awk '!seen[$1]++ { print $1 }'
    rm -f "$dir/.before" "$dir/.after" "$dir/.sizes"
}

huge_pages_of() { # huge_pages_of COUNT PID...: takes the memory lock of the process and walks its page tables
    smaps_left=$1
    shift
    date +%s
    for smaps_pid; do
        [ "$smaps_left" -gt 0 ] || break
        smaps_left=$((smaps_left - 1))
        smaps_text=$(cat "/proc/$smaps_pid/smaps_rollup") || continue
        echo "# cat /proc/$smaps_pid/smaps_rollup"
        echo "$smaps_text"
    done
}

kernel_threads() {
    all_stats | sed -n 's/^\([0-9]*\) (\(khugepaged\|kcompactd[0-9]*\|kswapd[0-9]*\)) .*/\1/p'
}

processes_start() {
    if [ -n "$pids" ]; then
        watched="$pids $(kernel_threads | tr '\n' ' ')"
    else
        watched=$(choose | tr '\n' ' ')
    fi
    # before 4.14 there is no smaps_rollup: the long form, once, of the three largest
    smaps_left=3
    for smaps_pid in $watched; do
        if [ ! -e "/proc/$smaps_pid/smaps_rollup" ] && [ "$smaps_left" -gt 0 ]; then
            copy "/proc/$smaps_pid/smaps"
            smaps_left=$((smaps_left - 1))
        fi
    done
}

processes_round() {
    if [ -z "$pids" ] && [ $((round % 6)) -eq 5 ]; then # newcomers
        for processes_pid in $(choose); do
            case " $watched " in
            *" $processes_pid "*) ;;
            *) watched="$watched $processes_pid" ;;
            esac
        done
    fi
    set --
    processes_status=
    for processes_pid in $watched; do
        [ -r "/proc/$processes_pid/stat" ] || continue
        set -- "$@" "/proc/$processes_pid/stat"
        processes_status="$processes_status /proc/$processes_pid/status"
    done
    date +%s >>"$dir/loops/processes.txt"
    [ $# -gt 0 ] || return 0
    # a list of plain paths: the blanks between them are wanted
    # shellcheck disable=SC2086
    {
        cat "$@"
        grep -hE '^(Name|State|Tgid|Pid|PPid|Vm[A-Za-z]+|Rss[A-Za-z]+|HugetlbPages|Threads|THP_enabled):' $processes_status
    } >>"$dir/loops/processes.txt" 2>/dev/null
    # in the background: reading smaps hangs where the memory lock of the process hangs
    if [ $((round % 3)) -eq 0 ] || [ -n "$last" ]; then
        [ -z "$smaps_job" ] || ! lives "$smaps_job" || return 0
        # shellcheck disable=SC2086
        huge_pages_of 5 $watched >>"$dir/loops/smaps.txt" 2>/dev/null &
        smaps_job=$!
        child "$smaps_job"
    fi
}
