plan() {
    end=$((seconds + 20))
    echo "thp-capture: records this host for $seconds s, with one look every $interval s, and needs about $end s in all."
    echo 'It changes nothing. It writes'
    echo "  $dir/"
    echo "  $dir.tar.gz"
    echo 'and runs:'
    cat <<'END'
@PLAN@
END
    [ -z "$pids" ] || echo "Processes watched: $pids"
    if [ "$(id -u)" -ne 0 ]; then
        echo 'NOT RUN AS ROOT, so some of it will be missing:'
        cat <<'END'
@ROOT@
END
    fi
    cat <<'END'
@SHOWS@
END
    echo 'Ctrl-C ends it early and keeps what there is.'
}

record() { # one look at the beginning, one at the end, and one every interval between, as far as the host keeps up
    record_begin=$(date +%s)
    round=0
    last=
    while [ -z "$stopped" ]; do
        rounds
        round=$((round + 1))
        record_now=$(($(date +%s) - record_begin))
        [ -z "$last" ] || break
        record_next=$(((record_now / interval + 1) * interval))
        if [ "$record_next" -ge "$seconds" ]; then
            record_next=$seconds
            last=yes
        fi
        has_room "$least_end" || {
            note "ended early: less than $least_end kB of disk are free"
            crowded=yes
            break
        }
        [ ! -t 2 ] || printf '\r%s of %s s' "$record_now" "$seconds" >&2
        [ "$record_next" -le "$record_now" ] || pause $((record_next - record_now))
    done
    note "recorded $(($(date +%s) - record_begin)) s${stopped:+, ended by a signal}"
}

reap() { # background commands get 10 s to end, then a TERM; one that hangs in the kernel is left behind
    reap_left=10
    [ -z "$stopped" ] || reap_left=1
    for reap_pid in $kids; do
        while [ "$reap_left" -gt 0 ] && lives "$reap_pid"; do
            sleep 1
            reap_left=$((reap_left - 1))
        done
        lives "$reap_pid" && kill "$reap_pid" && note "had to end process $reap_pid"
    done
    sleep 1
}

pack() {
    # -C: never write through a file or link that is already there
    if (set -C && cd "$parent" && tar cf - "$name" | gently gzip >"$name.tar.gz") 2>>"$log" && [ -s "$dir.tar.gz" ]; then
        echo "thp-capture: done. Please send $dir.tar.gz"
    else
        rm -f "$dir.tar.gz"
        echo "thp-capture: done, but tar or gzip failed. Please send the directory $dir"
    fi
}

plan
[ -z "$dry" ] || exit 0
has_room "$least_begin" || die "less than $least_begin kB are free in $parent; take another folder with -o"
mkdir "$dir" "$dir/loops" || die "cannot write to $parent"
note "begin: $seconds s, every $interval s, as uid $(id -u)"
trap stop INT TERM HUP
starts
record
trap : INT TERM HUP # from here on a signal only ends the step that runs
reap
finishes
note 'end'
[ ! -t 2 ] || echo >&2
pack
[ -z "$crowded" ] || echo 'thp-capture: it ended early, since the disk is nearly full' >&2
[ -z "$stopped" ] || exit 130
