"""The time between outputs that a pasted session's own commands tell: what becomes a time, and what must not.

Every session is read from end to end; told are the seconds of the outputs, for each stretch in which all pauses are
known, and the words of the pause.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from parse_bytes import readings
from thpdiag.model import Clock, Problem, Sample

GREP = "grep compact_ /proc/vmstat"
PROMPT = "[root@db1 ~]# "


def out(stall: int, *, more: str = "") -> str:
    """The output of `GREP` as counters stand at a moment."""
    return f"compact_stall {stall}\ncompact_fail {stall // 2}\n{more}"


def times(text: str) -> list[tuple[str, list[float]]]:
    """By stretch the pause and the seconds of its outputs, from the first on; outputs without a time are left out."""
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for reading in readings(text.encode()):
        record = reading.record
        if isinstance(record, Sample) and record.time and record.time.clock is Clock.SESSION:
            assert record.time.pace is not None
            found[record.time.pace.stretch, record.time.pace.words].append(record.time.seconds)
    return [(words, [at - seconds[0] for at in seconds]) for (_, words), seconds in found.items()]


PAIR = out(1000) + out(1600)

ONE_LINE = {
    f"{GREP}; sleep 300; {GREP}": ("sleep 300", 300.0),
    f"{GREP} && sleep 5m && {GREP}": ("sleep 5m", 300.0),
    f"{GREP};sleep 1h;{GREP}": ("sleep 1h", 3600.0),
    f"sudo {GREP}; sleep 2.5; sudo {GREP}": ("sleep 2.5", 2.5),
    f"({GREP}; sleep 60; {GREP})": ("sleep 60", 60.0),
    f"{{ {GREP}; sleep 60; {GREP}; }} | tee /tmp/x": ("sleep 60", 60.0),
    f"{GREP}; sleep 1m 30s; {GREP}": ("sleep 1m 30s", 90.0),
    f"{GREP}; sleep 60; sleep 30; {GREP}": ("sleep 60 and sleep 30", 90.0),
    "egrep 'compact_(stall|fail)' /proc/vmstat; sleep 9; egrep 'compact_(stall|fail)' /proc/vmstat": ("sleep 9", 9.0),
    "awk '/compact_/ {print $1, $2}' /proc/vmstat; sleep 9; awk '/compact_/ {print $1, $2}' /proc/vmstat": (
        "sleep 9",
        9.0,
    ),
    f"cat /proc/vmstat | {GREP[:13]}; sleep 9; cat /proc/vmstat | {GREP[:13]}": ("sleep 9", 9.0),
    f"for i in 1 2 3; do {GREP}; sleep 5; done": ("sleep 5", 5.0),
    f"for i in $(seq 10); do {GREP}; sleep 5; done": ("sleep 5", 5.0),
    f"for i in {{1..10}}; do {GREP}; sleep 5; done": ("sleep 5", 5.0),
    f"for ((i = 0; i < 9; i++)); do {GREP}; sleep 5; done": ("sleep 5", 5.0),
    f"while true; do {GREP}; sleep 7; done": ("sleep 7", 7.0),
    f"while sleep 7; do {GREP}; done": ("sleep 7", 7.0),
    f"until false; do {GREP}; echo ----; sleep 0.5; done": ("sleep 0.5", 0.5),
    f"bash -c '{GREP}; sleep 60; {GREP}'": ("sleep 60", 60.0),
    f"{GREP}; perf record -a -g -o x -- sleep 30; {GREP}": ("sleep 30", 30.0),
    # What must not become a time
    f"{GREP}; {GREP}": None,
    f"{GREP}; sleep 300 & {GREP}": None,
    f"{GREP}; ./load.sh; sleep 300; {GREP}": None,
    f"{GREP}; sleep $PAUSE; {GREP}": None,
    f"{GREP}; sleep infinity; {GREP}": None,
    f"{GREP}; sleep 300; {GREP}; sleep 300; {GREP}": None,  # an output is missing
    f"while true; do {GREP}; ssh db2 uptime; sleep 5; done": None,
    f"while read x; do {GREP}; done": None,
    f"{GREP}; echo 'then sleep 300 and again'; {GREP}": None,
    f"for f in 1; do {GREP}; sleep 5; done": None,  # it prints once
    f"{GREP} || sleep 300; {GREP}": None,
}


@pytest.mark.parametrize("command", ONE_LINE)
def test_the_pauses_of_one_line(command: str) -> None:
    """Two outputs of one command line are as far apart as it says, if it says so."""
    wanted = ONE_LINE[command]
    found = times(f"{PROMPT}{command}\n{PAIR}{PROMPT}uptime\n")
    assert found == ([] if wanted is None else [(wanted[0], [0.0, wanted[1]])])


SEVERAL_LINES = {
    "typed one by one": (
        f"{PROMPT}{GREP}\n{out(1)}{PROMPT}sleep 300\n{PROMPT}{GREP}\n{out(9)}",
        [("sleep 300", [0.0, 300.0])],
    ),
    "typed one by one, in the shortest prompts": (
        f"# {GREP}\n{out(1)}# sleep 300\n# {GREP}\n{out(9)}",
        [("sleep 300", [0.0, 300.0])],
    ),
    "with other files between": (
        f"{PROMPT}{GREP}\n{out(1)}{PROMPT}grep AnonHuge /proc/meminfo\nAnonHugePages:   2048 kB\n"
        f"{PROMPT}sleep 60\n{PROMPT}{GREP}\n{out(9)}{PROMPT}grep AnonHuge /proc/meminfo\nAnonHugePages:   4096 kB\n",
        [("sleep 60", [0.0, 0.0, 60.0, 60.0])],
    ),
    "set -x": (f"+ {GREP}\n{out(1)}+ sleep 60\n+ {GREP}\n{out(9)}", [("sleep 60", [0.0, 60.0])]),
    "a loop over several lines": (
        f"{PROMPT}for i in 1 2 3\n> do\n>   {GREP}\n>   sleep 5\n> done\n{out(1)}{out(2)}{out(3)}",
        [("sleep 5", [0.0, 5.0, 10.0])],
    ),
    "a loop over several lines, of zsh": (
        f"db1# while true; do\nwhile> {GREP}\nwhile> sleep 5\nwhile> done\n{out(1)}{out(2)}",
        [("sleep 5", [0.0, 5.0])],
    ),
    "a line that goes on": (f"{PROMPT}{GREP}; \\\n> sleep 8; {GREP}\n{PAIR}", [("sleep 8", [0.0, 8.0])]),
    "a here document": (
        f"{PROMPT}bash <<'EOF'\n> {GREP}\n> sleep 20\n> {GREP}\n> EOF\n{PAIR}",
        [("sleep 20", [0.0, 20.0])],
    ),
    "a script that is written and run": (
        f"{PROMPT}cat > t.sh <<EOF\n{GREP}\nsleep 20\n{GREP}\nEOF\n{PROMPT}sh t.sh\n{PAIR}",
        [("sleep 20", [0.0, 20.0])],
    ),
    "a script that is shown and run": (
        f"{PROMPT}cat t.sh\n#!/bin/sh\n{GREP}\nsleep 20\n{GREP}\n{PROMPT}./t.sh\n{PAIR}",
        [("sleep 20", [0.0, 20.0])],
    ),
    "a script above its output": (f"#!/bin/bash\n{GREP}\nsleep 20\n{GREP}\n\n{PAIR}", [("sleep 20", [0.0, 20.0])]),
    "two pairs": (
        f"{PROMPT}{GREP}; sleep 5; {GREP}\n{PAIR}{PROMPT}{GREP}; sleep 60; {GREP}\n{out(2000)}{out(3000)}",
        [("sleep 5", [0.0, 5.0]), ("sleep 60", [0.0, 60.0])],
    ),
    "quoted in a mail": (
        f"> {PROMPT}{GREP}; sleep 5; {GREP}\n> compact_stall 5\n> compact_stall 9\n",
        [("sleep 5", [0.0, 5.0])],
    ),
    "vmstat between": (
        f"{PROMPT}{GREP}; vmstat 5 3; {GREP}\n{out(1)}"
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
        " 1  0      0 800000  20000 400000    0    0     1     2   10   20  1  2 97  0  0\n"
        " 1  0      0 801000  20000 400000    0    0     1     2   10   20  1  2 97  0  0\n"
        f" 1  0      0 802000  20000 400000    0    0     1     2   10   20  1  2 97  0  0\n{out(9)}",
        [("vmstat 5", [0.0, 0.0, 5.0, 10.0, 10.0])],
    ),
    # What must not become a time
    "nothing known of the time between": (f"{PROMPT}{GREP}\n{out(1)}{PROMPT}{GREP}\n{out(9)}", []),
    "another host": (
        f"[root@db1 ~]# {GREP}\n{out(1)}[root@db1 ~]# sleep 300\n[root@db2 ~]# {GREP}\n{out(9)}",
        [],
    ),
    "a script that is only shown": (f"{PROMPT}cat t.sh\n{GREP}\nsleep 20\n{GREP}\n{PROMPT}{GREP}\n{out(1)}", []),
    "a script that is only written": (
        f"{PROMPT}cat > t.sh <<EOF\n{GREP}\nsleep 20\n{GREP}\nEOF\n{PROMPT}{GREP}\n{out(1)}{PROMPT}{GREP}\n{out(2)}",
        [],
    ),
    "advice": (f"Please run {GREP}, sleep 300 and run it again:\n\n{out(1)}\n{out(9)}", []),
    "advice in a comment": (f"# sleep 300 seconds between the two\n{out(1)}\n# sleep 300 seconds\n{out(9)}", []),
    "a remark with a quote": (f"{PROMPT}don't do this\n{out(1)}{out(2)}it's done\n", []),
    "advice on a line of its own": (f"{GREP}\nsleep 300\n{GREP}\n\n{out(1)}\n{out(9)}", []),
    "outputs of different commands": (
        f"{PROMPT}grep compact_stall /proc/vmstat; sleep 300; grep thp_fault /proc/vmstat\n"
        "compact_stall 4\nthp_fault_alloc 900\n",
        [],
    ),
    "different commands, typed one by one": (
        f"{PROMPT}grep compact_stall /proc/vmstat\ncompact_stall 4\n{PROMPT}sleep 300\n"
        f"{PROMPT}grep thp_fault /proc/vmstat\nthp_fault_alloc 900\n",
        [],
    ),
    "a remark between": (
        f"{PROMPT}{GREP}; sleep 300; {GREP}\n{out(1)}\nThat was yesterday, today it looks like this:\n\n{out(9)}",
        [],
    ),
    "a remark between, without an empty line": (
        f"{PROMPT}{GREP}; sleep 300; {GREP}\n{out(1)}And today it looks like this:\n{out(9)}",
        [],
    ),
    "an output left out": (f"{PROMPT}while true; do {GREP}; sleep 5; done\n{out(1)}[...]\n{out(9)}", []),
    "a command of unknown length between": (
        f"{PROMPT}{GREP}\n{out(1)}{PROMPT}sleep 60\n{PROMPT}./load.sh\n{PROMPT}{GREP}\n{out(9)}",
        [],
    ),
    "another speaker": (
        f"{PROMPT}{GREP}\n{out(1)}{PROMPT}sleep 60\n\nFrom: Jo <jo@example.org>\n\n{PROMPT}{GREP}\n{out(9)}",
        [],
    ),
    "one grep says what the other says": (
        f"{PROMPT}while true; do {GREP}; grep compact_stall /proc/vmstat; sleep 5; done\n"
        f"{out(1)}compact_stall 1\n{out(5)}compact_stall 5\n",
        [],
    ),
}


@pytest.mark.parametrize("case", SEVERAL_LINES)
def test_sessions_of_several_lines(case: str) -> None:
    """Prompts, scripts and here documents; and texts that say nothing of the time between their outputs."""
    text, wanted = SEVERAL_LINES[case]
    assert times(text) == wanted


def test_printed_times_are_better() -> None:
    """Where rounds print the time, it is theirs; where the time is printed once, the pause counts from it."""
    loop = f"{PROMPT}while sleep 10; do date +%s; {GREP}; done\n1795145743\n{out(1)}1795145759\n{out(2)}"
    found = [r.record.time for r in readings(loop.encode()) if isinstance(r.record, Sample)]
    assert [(t.seconds, t.clock, t.pace) for t in found if t] == [
        (1795145743.0, Clock.UTC, None),
        (1795145759.0, Clock.UTC, None),
    ]
    once = f"{PROMPT}date +%s; {GREP}; sleep 10; {GREP}\n1795145743\n{PAIR}"
    found = [r.record.time for r in readings(once.encode()) if isinstance(r.record, Sample)]
    assert [(t.seconds, t.clock, t.pace.words if t.pace else "") for t in found if t] == [
        (1795145743.0, Clock.UTC, ""),
        (1795145753.0, Clock.UTC, "sleep 10"),
    ]


def test_times_of_day_in_a_loop() -> None:
    """`date +%T` prints no date; behind midnight the next day begins."""
    rounds = f"23:58:30\n{out(1)}23:59:31\n{out(2)}00:00:32\n{out(3)}"
    loop = f"{PROMPT}for i in 1 2 3; do date +%T; {GREP}; sleep 60; done\n{rounds}"
    found = [r.record.time for r in readings(loop.encode()) if isinstance(r.record, Sample)]
    assert [(t.seconds, t.clock) for t in found if t] == [
        (86310.0, Clock.DAY),
        (86371.0, Clock.DAY),
        (86432.0, Clock.DAY),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "Every 2.0s: {}       db1.example.com: Fri Nov 20 03:35:43 2026",
            "Every 2.0s: {}  db1.example.com: Fri Nov 20 03:36:43 2026",
        ),
        (
            "Every 2.0s: {}                 Fri Nov 20 03:35:43 2026",
            "Every 2.0s: {}                 Fri Nov 20 03:36:43 2026",
        ),
        ("Alle 2,0s: {}       db1: Fri Nov  6 03:35:43 2026", "Alle 2,0s: {}       db1: Fri Nov  6 03:36:43 2026"),
    ],
)
def test_screens_of_watch(first: str, second: str) -> None:
    """The first line of each screen has its time."""
    text = f"{PROMPT}watch '{GREP}'\n{first.format(GREP)}\n\n{out(1)}{second.format(GREP)}\n\n{out(2)}"
    found = [r.record.time for r in readings(text.encode()) if isinstance(r.record, Sample)]
    moments = [t for t in found if t and t.clock is Clock.LOCAL]
    assert len(moments) == 2
    assert moments[1].minus(moments[0]) == 60.0


def test_a_reboot_between_two_outputs() -> None:
    """Counters that fall began anew: the two are cannot be compared, and a problem says so."""
    text = f"{PROMPT}{GREP}; sleep 300; {GREP}\n{out(100000)}{out(20)}"
    assert times(text) == []
    problems = [r.record.text for r in readings(text.encode()) if isinstance(r.record, Problem)]
    assert any("cannot be compared" in problem for problem in problems)


def test_what_is_typed_by_hand_may_have_taken_longer() -> None:
    """The pause of one line is kept to within a tenth; of lines typed one by one only that it passed is known."""
    by_hand = f"{PROMPT}{GREP}\n{out(1)}{PROMPT}sleep 300\n{PROMPT}{GREP}\n{out(9)}"
    for text, loose in ((f"{PROMPT}{GREP}; sleep 300; {GREP}\n{PAIR}", False), (by_hand, True)):
        found = [r.record.time for r in readings(text.encode()) if isinstance(r.record, Sample)]
        assert [t.pace.loose for t in found if t and t.pace] == [loose, loose]


def test_a_long_loop() -> None:
    """Records are held until a loop has proved its pace; then they come as they are read."""
    text = f"{PROMPT}while sleep 2; do {GREP}; done\n" + "".join(out(n) for n in range(1, 9000))
    ((words, seconds),) = times(text)
    assert words == "sleep 2"
    assert seconds == [2.0 * n for n in range(8999)]


IOSTAT = (
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
    "           1.00    0.00    2.00    0.00    0.00   97.00\n\n"
)
FREE = (
    "               total        used        free      shared  buff/cache   available\n"
    "Mem:        24689276     1500000    20600000       12000     2560000    22900000\n\n"
)
COLLECTL = (
    "#<----CPU[HYPER]-----><----------Disks-----------><----------Network---------->\n"
    "#cpu sys inter  ctxsw KBRead  Reads KBWrit Writes   KBIn  PktIn  KBOut  PktOut\n"
    "   3   1   300    400      0      0      8      1      1     10      1      10\n"
    "   4   2   310    410      0      0      8      1      1     10      1      10\n"
)


PROCESSES = (
    "\n# PROCESS SUMMARY (counters are /sec)\n"
    "# PID  User     PR  PPID THRD S   VSZ   RSS CP  SysT  UsrT Pct  AccuTime  RKB  WKB MajF MinF Command\n"
    + " 4711  root     20  4700    0 S  388M   45M  0  0.00  0.00   0  00:00.01    0    0    0    0 ./w \n"
    * 2
)


@pytest.mark.parametrize(
    ("command", "output", "seconds"),
    [
        ("iostat -c 5 3", IOSTAT * 3, [0.0, 5.0, 10.0]),
        ("free -s 3 -c 2", FREE * 2, [0.0, 3.0]),
        ("collectl -i 10", COLLECTL, [0.0, 10.0]),
        ("collectl -i2:30", COLLECTL, [0.0, 2.0]),
        ("collectl", COLLECTL, [0.0, 1.0]),
        ("collectl -sZ -i:5 --procfilt p4711", PROCESSES, [0.0, 5.0]),
        ("collectl -sZ -i 1:5", PROCESSES, [0.0, 5.0]),
        ("collectl -sZ", PROCESSES, [0.0, 60.0]),
    ],
)
def test_tools_that_print_no_time(command: str, output: str, seconds: list[float]) -> None:
    """Their rows are as far apart as the interval that was typed."""
    ((_, found),) = times(f"{PROMPT}{command}\n{output}{PROMPT}")
    assert found == seconds


def test_commands_without_end() -> None:
    """Loops in loops, and outputs of something else than the command prints, take no time and give none."""
    endless = f"{GREP}; while true; do cat /proc/buddyinfo; sleep 1; done"
    silent = "for i in {1..999999999}; do for j in {1..999999999}; do sleep 1; done; done; " + GREP
    nested = "(" * 4000 + GREP + ")" * 4000
    for command in (endless, silent, nested, "while " * 1000, "$(" * 2000, "'" * 2001, f"{GREP}; " * 400):
        assert times(f"{PROMPT}{command}\n{PAIR}{out(5)}" * 3) == []
