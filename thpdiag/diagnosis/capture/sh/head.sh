#!/bin/sh
# Records what is needed to explain slowness by huge pages (THP), memory compaction or fragmentation on this host.
# Plain POSIX sh, for RHEL 6 and later; reads only, changes no setting. Run it as root WHILE the host is slow.
# Sections: @SECTIONS@
@MISSING@
#   -d SECONDS   how long to record (@SECONDS@)      -i INTERVAL  seconds between two looks (@INTERVAL@)
#   -p PID       watch this process; repeatable    -o DIR       write below this directory (the current one)
#   -n           only print what would be done     -k           keep perf.data
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin
umask 077

seconds=@SECONDS@
interval=@INTERVAL@
pids='@PID@'
given=
parent=.
dry=
keep=
stopped=
crowded=
least_begin=50000 # kB of disk: nothing is begun with less,
least_end=20000 # and the recording ends with less
sleeper=
kids=

die() {
    echo "thp-capture: $1" >&2
    exit 2
}

whole() { # whole OPTION NUMBER: from 1 to 999999
    case $2 in
    '' | *[!0-9]* | ???????*) die "$1 wants a whole number, not '$2'" ;;
    esac
    [ "$2" -gt 0 ] || die "$1 must be 1 or more"
}

while getopts d:i:p:o:nk option; do
    case $option in
    d) whole -d "$OPTARG" && seconds=$OPTARG ;;
    i) whole -i "$OPTARG" && interval=$OPTARG ;;
    p) whole -p "$OPTARG" && given="$given $OPTARG" ;;
    o) parent=$OPTARG ;;
    n) dry=yes ;;
    k) keep=yes ;;
    *) die 'usage: thp-capture [-d SECONDS] [-i INTERVAL] [-p PID]... [-o DIR] [-n] [-k]' ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || die "unexpected argument '$1'"
[ -n "$given" ] && pids=$given
[ "$interval" -le "$seconds" ] || interval=$seconds

host=$(uname -n | tr -cd 'A-Za-z0-9._-')
name=thp-capture-$host-$(date +%Y%m%d-%H%M%S)
dir=$parent/$name
log=$dir/capture.log

have() {
    command -v "$1" >/dev/null 2>&1
}

gently() {
    if have nice; then
        nice "$@"
    else
        "$@"
    fi
}

has_room() { # has_room KB: whether so much disk is free; yes where df does not tell
    room_free=$(df -Pk "$parent" 2>/dev/null | awk 'NR == 2 { print $4 }')
    case $room_free in
    '' | *[!0-9]*) return 0 ;;
    esac
    [ "$room_free" -ge "$1" ]
}

note() { # note TEXT...: one line of capture.log
    echo "$(date +%s) $*" >>"$log"
}

out() { # out FILE TEXT COMMAND [ARG...]: what COMMAND prints, under the prompt line "# TEXT"
    out_file=$dir/$1
    out_text=$2
    shift 2
    out_begin=$(date +%s)
    echo "# $out_text" >>"$out_file"
    "$@" >>"$out_file" 2>>"$log"
    note "exit $?, $(($(date +%s) - out_begin)) s: $out_text"
}

run() { # run FILE COMMAND [ARG...]: the same for a command that may not exist
    run_file=$1
    shift
    if have "$1"; then
        out "$run_file" "$*" "$@"
    else
        note "skipped, no such command: $*"
    fi
}

copy() { # copy PATH...: each file under its own path
    for copy_path; do
        [ -e "$copy_path" ] || continue
        if [ ! -r "$copy_path" ]; then
            note "skipped, not readable: $copy_path"
            continue
        fi
        [ -d "$dir${copy_path%/*}" ] || mkdir -p "$dir${copy_path%/*}"
        cat "$copy_path" >"$dir$copy_path" 2>>"$log" || note "exit $?: cat $copy_path"
    done
}

child() { # child PID: a background command that must not outlive this script
    kids="$kids $1"
}

lives() { # lives PID: still a running child of this script, and not another process that got its number
    read -r lives_stat 2>/dev/null <"/proc/$1/stat" || return 1
    lives_stat=${lives_stat##*) }
    lives_parent=${lives_stat#? }
    [ "${lives_stat%% *}" != Z ] && [ "${lives_parent%% *}" = $$ ]
}

pause() { # pause SECONDS: a sleep that a signal ends; in short pieces, for a signal between the test and the wait
    pause_until=$(($(date +%s) + $1))
    pause_left=$1
    while [ "$pause_left" -gt 0 ] && [ -z "$stopped" ]; do
        [ "$pause_left" -le 5 ] || pause_left=5
        sleep "$pause_left" &
        sleeper=$!
        [ -n "$stopped" ] || wait "$sleeper"
        [ -z "$stopped" ] || ! lives "$sleeper" || kill "$sleeper"
        sleeper=
        pause_left=$((pause_until - $(date +%s)))
    done
}

stop() { # INT, TERM, HUP: end the recording, keep what there is
    stopped=yes
    [ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null
}
