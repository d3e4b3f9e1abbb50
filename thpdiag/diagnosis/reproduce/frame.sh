# -- what all of these scripts share: options, checks, settings that are put back --
set -eu
LC_ALL=C
export LC_ALL
umask 077

root=${REPRODUCE_ROOT:-} # a folder that stands for / when this script is tested
capture=
recording=
remedy=
saved=
started=
lock=
dir=

die() {
    echo "reproduce: $1" >&2
    exit 2
}

limit=90
while getopts s:w:c:r option; do
    case $option in
    s) seconds=$OPTARG ;;
    w) limit=$OPTARG ;;
    c) capture=$OPTARG ;;
    r) remedy=yes ;;
    *) die "usage: sh $0 [-s SECONDS] [-c CAPTURE.SH] [-r]" ;;
    esac
done
for number in "$seconds" "$limit"; do
    case $number in
    '' | 0* | *[!0-9]* | ????*) die "a number of seconds has one to three digits, not '$number'" ;;
    esac
done
[ -z "$capture" ] || [ -r "$capture" ] || die "no file $capture"

restore() {
    trap '' INT TERM HUP
    for pid in $started; do
        kill "$pid" 2>/dev/null || true
    done
    for pair in $saved; do
        echo "${pair#*=}" >"$root${pair%%=*}" && echo "reproduce: ${pair%%=*} is ${pair#*=} again"
    done
    saved=
    for pid in $started; do # the recording may take a while to end
        wait "$pid" 2>/dev/null || true
    done
    [ -z "$dir" ] || rm -rf "$dir"
    [ -z "$lock" ] || rmdir "$lock"
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

need_root() {
    [ "$(id -u)" = 0 ] || die 'run as root: it changes settings of the kernel'
    [ -d "$root/sys/kernel/mm/transparent_hugepage" ] || die 'this kernel has no transparent huge pages'
    # whatever sets huge pages again meanwhile would make the result worthless
    for pid_file in "$root/run/tuned/tuned.pid" "$root/var/run/ktune.pid"; do
        [ ! -e "$pid_file" ] || die "$pid_file: stop tuned first, as it sets huge pages too"
    done
    mkdir "$root/run/thpdiag-reproduce" || die 'another of these scripts runs; if not, rmdir /run/thpdiag-reproduce'
    lock=$root/run/thpdiag-reproduce
}

total_mib() {
    awk '/^MemTotal:/ { print int($2 / 1024) }' "$root/proc/meminfo"
}

available_mib() { # 0 before 3.14, which does not tell it
    awk '/^MemAvailable:/ { mib = int($2 / 1024) } END { print mib + 0 }' "$root/proc/meminfo"
}

need_memory() { # need_memory MIB: of available memory, more than is taken
    have=$(available_mib)
    [ "$have" -ge "$1" ] || die "needs $1 MiB of available memory, there are $have"
}

cpu_ticks() { # prints what /proc/stat counts of all CPUs: idle ones, all
    awk '$1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; print $5 + $6, all }' "$root/proc/stat"
}

need_idle_cpu() { # for threads of the kernel that run at the lowest priority
    [ -r "$root/proc/stat" ] || return 0
    ticks="$(cpu_ticks) $(sleep 2 && cpu_ticks)"
    # shellcheck disable=SC2086
    set -- $ticks
    [ $((20 * ($3 - $1))) -ge $(($4 - $2)) ] || die 'no CPU is idle: try again when other programs are at rest'
}

set_knob() { # set_knob FILE VALUE: as it was again at the end
    [ -w "$root$1" ] || die "this kernel has no $1"
    was=$(sed 's/.*\[\(.*\)\].*/\1/' "$root$1")
    case $saved in
    *" $1="*) ;;
    *)
        saved="$saved $1=$was"
        echo "reproduce: should this script be killed: echo $was > $1"
        ;;
    esac
    echo "reproduce: $1: $was -> $2"
    echo "$2" >"$root$1"
}

build() { # build OPTION...: the program on stdin
    command -v cc >/dev/null || die 'no cc: install a C compiler (gcc)'
    dir=$(mktemp -d)
    cat >"$dir/program.c"
    cc -O1 -Wall -o "$dir/thp-demo" "$dir/program.c" "$@" || die 'the program cannot be compiled'
}

start() { # start OUTPUT MIB ARGUMENT...: the program in the background, with so much address space; $! is its process
    output=$1
    most=$(($2 * 1024))
    shift 2
    (
        ulimit -v "$most"
        exec "$dir/thp-demo" "$@" >>"$output"
    ) &
    started="$started $!"
}

start_riddle() { # start_riddle MIB ARGUMENT...: until free memory is in pieces; the process stays, and $! is its number
    mkfifo "$dir/answer"
    start "$dir/answer" $(($1 + 1024)) "$@"
    echo 'reproduce: breaks up free memory'
    read -r answer <"$dir/answer" || die 'free memory could not be broken up'
    [ "$answer" = ready ] || die "free memory was not in pieces after $limit s: give it more time with -w"
}

record() { # record PID: for as long as the program is watched
    if [ -z "$capture" ]; then
        echo "reproduce: record it now, in another terminal, as root, for $seconds s:"
        echo "    thpdiag capture-script > capture.sh; sh capture.sh -d $seconds -i 2 -p $1"
        return 0
    fi
    sh "$capture" -d "$seconds" -i 2 -p "$1" &
    recording=$!
    started="$started $recording"
}

await_recording() { # until the recording has looked at the processes for the first time, or 15 s
    left=15
    while [ "$left" -gt 0 ] && [ -z "$(find . -path './thp-capture-*/loops/processes.txt' -newer "$dir/program.c" -size +0)" ]; do
        sleep 1
        left=$((left - 1))
    done
}

finish() { # finish PID: until the recording or else the program has ended
    wait "${recording:-$1}" || true
    echo 'reproduce: done; analyze the recording with: thpdiag analyze FOLDER'
}
# -- end of what they share --
