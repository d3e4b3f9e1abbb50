"""What terminals, viewers, log drivers and ticket systems do to all lines of a text changes nothing of what is read.

The fixtures of all parsers, as one pasted text each, are numbered, stamped, recoded; the records must be the same, but
for the line where blanks are left out, and for times that the stamps add.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from conftest import ROOT
from golden_records import plain
from parse_bytes import member, readings
from pasted_variants import CHANGED, SHORT, WHOLE, each_line, hard, sampled, soft, strays
from thpdiag.bundle.member import utf16_of
from thpdiag.detect.transcript import TextLine
from thpdiag.detect.wrapped import join_wrapped_rows
from thpdiag.host.reading import _is_noise
from thpdiag.model import Event, Fact, Problem, Profile, Record, Sample

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
MAX_BYTES = 100_000 if PROOF else 10_000  # larger fixtures say the same again
EVERY = 1 if PROOF else 3  # of which each form is tried on every third one, the next form on the next ones


def nl(text: str) -> str:
    """`nl` numbers no empty lines."""
    numbers = iter(range(1, 1 << 30))
    return each_line(lambda _, line: f"{next(numbers):6}\t{line}" if line.strip() else f"       {line}")(text)


STAMPS = {
    "docker logs -t": lambda n, line: f"2026-11-20T03:35:{n % 60:02}.{n:09}Z {line}",
    "kubectl logs --timestamps": lambda _, line: f"2026-11-20T03:35:43.123456+01:00 {line}",
    "CRI": lambda n, line: f"2026-11-20T03:35:{n % 60:02}.{n:09}Z stdout F {line}",
    "journald": lambda _, line: f"Nov 20 03:35:43 db1 recorder[4711]: {line}",
    "rsyslog": lambda _, line: f"2026-11-20T03:35:43.123456+01:00 db1 recorder[4711]: {line}",
}
OTHERS = {
    "cat -n": each_line(lambda n, line: f"{n:6}\t{line}"),
    "nl": nl,
    "grep -n": each_line(lambda n, line: f"{n}:{line}"),
    "bat": each_line(lambda n, line: f"{n:4} │ {line}"),
    "gutter": each_line(lambda n, line: f"{n:4} | {line}"),
    "fence on the lines": lambda text: "```" + text.rstrip("\n") + "```\n",
    "docker compose": each_line(lambda _, line: f"recorder-1  | {line}"),
    "kubectl --prefix": each_line(lambda _, line: f"[pod/recorder-7d/app] {line}"),
    "quote in a margin": each_line(lambda _, line: f"    > {line}".rstrip()),
    "numbered log": each_line(lambda n, line: f"{n:6}\t2026-11-20T03:35:43Z {line}"),
}
VIM = each_line(lambda n, line: f"{n:3} {line}")
OWN_STAMPS = {"kernel_trace/decoded_arm64", "tuned/el7-list"}  # known with a stamp, or a list of dashes
AS_BYTES = {f"atop_parseable/{name}" for name in ("recording", "underscores", "version-1")}  # a fence is none there
QUOTED = {"thpdiag_report/markdown"}  # whose sentences are nobody's own once they are quoted
_TIME = re.compile(r"\d+\.\d{3} \w+")


def fixtures() -> dict[str, str]:
    """The texts of one file of which something is read."""
    return {name: text for name, (text, _) in as_given().items()}


def fixture(name: str) -> str:
    """The text of the only file of a fixture of any size."""
    (file,) = (path for path in (ROOT / "fixtures" / "readers" / name).rglob("*") if path.is_file())
    return file.read_text("utf-8")


@cache
def as_given() -> dict[str, tuple[str, Counter[str]]]:
    """The texts of one file and what is read from them."""
    found = {}
    for case in sorted((ROOT / "fixtures" / "readers").glob("*/*/")):
        files = [path for path in case.rglob("*") if path.is_file() and path.suffix != ".svg"]  # nobody pastes these
        if len(files) == 1 and files[0].stat().st_size <= MAX_BYTES:
            data = files[0].read_bytes()
            text = data.decode("utf-8", "replace")
            if "\0" not in text and "\ufffd" not in text and (records := what_is_read(data)):
                found[f"{case.parent.name}/{case.name}"] = text, records
    return found


def essence(record: Record) -> str:
    """A record without the time that a stamp may have added, and without what it was read from."""
    rows = plain(record)
    if isinstance(record, Fact | Sample | Event):
        rows = [part for part in rows[:-1] if part is not None and not _TIME.fullmatch(str(part))]
    return json.dumps([type(record).__name__, rows], sort_keys=True)


def what_is_read(data: bytes) -> Counter[str]:
    """The records of a pasted text, as far as it is taken for a text."""
    if _is_noise(member(data).head()):
        return Counter()
    return Counter(essence(reading.record) for reading in readings(data, "pasted.txt"))


def differing(change: Callable[[str], bytes], first: int = 0) -> set[str]:
    """Those of the fixtures, from one of them on, of which something else is read once they are changed."""
    chosen = [*as_given().items()][first % EVERY :: EVERY]
    return {name for name, (text, records) in chosen if what_is_read(change(text)) != records}


@pytest.mark.parametrize("form", OTHERS)
def test_numbers_and_names_before_all_lines_are_taken_off(form: str) -> None:
    """Numbers of lines, names of containers."""
    known = {"fence on the lines": AS_BYTES, "quote in a margin": QUOTED}.get(form, OWN_STAMPS)
    assert differing(lambda text: OTHERS[form](text).encode(), [*OTHERS].index(form)) <= known


@pytest.mark.parametrize("form", STAMPS)
def test_stamps_before_all_lines_are_taken_off(form: str) -> None:
    """Those of containers and of logs; a trace that has stamps of its own keeps them."""
    changed = differing(lambda text: each_line(STAMPS[form])(text).encode(), [*STAMPS].index(form))
    assert changed <= OWN_STAMPS


def test_numbers_behind_blanks_need_more_lines() -> None:
    """`set number`, `less -N`: tables begin so too, a single line is ambiguous."""
    lines = {name: len(text.rstrip("\n").split("\n")) for name, text in fixtures().items()}
    assert {name for name in differing(lambda text: VIM(text).encode()) if lines[name] > 3} <= {
        "packages/debian12-dpkg",
        "strace/no-times",  # whose lines may begin with a pid
        *("systemd_cgls/ascii", "systemd_cgls/slice"),  # the line of a tree behind a number is that of a gutter
    }


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_is_told_by_its_zeros(encoding: str) -> None:
    """With and without byte order mark, and languages whose letters are no ASCII."""
    assert differing(lambda text: text.encode(encoding)) == set()


def test_no_binary_file_is_taken_for_utf_16() -> None:
    """Recordings, archives, kernels: none of the fixtures that are no text."""
    files = [path for path in (ROOT / "fixtures").rglob("*") if path.is_file()]
    heads = {path: path.read_bytes()[: 1 << 16] for path in files}
    binary = {path for path, head in heads.items() if b"\0" in head}
    assert len(binary) > 20
    assert {path.name for path in binary if utf16_of(heads[path])} == set()
    assert not utf16_of(bytes(range(32, 127)) * 9)
    assert not utf16_of(b"".join(number.to_bytes(2, "little") for number in range(400)))


def times_of(text: str) -> list[float | None]:
    """The times of the counters in a text."""
    rows = [r.record for r in readings(text.encode(), "pasted.txt") if isinstance(r.record, Sample)]
    return [None if row.time is None else row.time.seconds for row in rows]


def test_stamps_are_times() -> None:
    """What has no time of its own has that before its line."""
    text = "".join(f"2026-11-20T03:35:{n:02}.5Z compact_stall {n}\n" for n in (3, 13, 23))
    assert times_of(text) == [1795145703.5, 1795145713.5, 1795145723.5]


@pytest.mark.parametrize(
    "above", ["[root@db1 ~]# ", "root@db1:~# sh loop.sh ", "never", "/usr/bin/java -Xmx4g ", "[1] 4711 ", "The loop: "]
)
def test_the_first_date_of_a_loop_may_stand_behind_other_output(above: str) -> None:
    """A prompt, a file without a line end, a sentence."""
    rounds = [f"Fri Nov 20 03:35:{n:02} UTC 2026\ncompact_stall {n}\n" for n in (3, 13, 23)]
    assert times_of(f"Hello,\n\n{above}{''.join(rounds)}") == [1795145703.0, 1795145713.0, 1795145723.0]


def test_a_date_in_a_sentence_is_no_time_of_the_output_below() -> None:
    """Where no loop goes on from it, or it fits none."""
    counters = "compact_stall 3\n\nFri Nov 20 03:35:13 UTC 2026\ncompact_stall 13\n"
    later = "\nFri Nov 20 03:35:23 UTC 2026\ncompact_stall 23\n"
    sentence = "It began on Fri Nov 20 03:00:00 UTC 2026"
    assert times_of(f"{sentence}\ncompact_stall 3\n")[0] is None
    assert times_of(f"{sentence}\n{counters}{later}")[0] is None


def test_output_behind_a_prompt_is_read() -> None:
    """A job in the background prints behind the prompt."""
    table = fixture("vmstat/rhel6")
    assert differing_text(table, f"root@db7:~# {table}") == set()


def differing_text(one: str, other: str) -> set[str]:
    """Records that are in one of two texts alone."""
    here, there = what_is_read(one.encode()), what_is_read(other.encode())
    return set((here - there) + (there - here))


GRAPHS = ["callee", "caller", "children_callee", "children_caller", "fractal_callee", "fractal_caller", "el6"]


def shares_of(text: str) -> dict[str, dict[str, float]]:
    """By function its own share and that of all chains that hold it."""
    (profile,) = (r.record for r in readings(text.encode(), "pasted.txt") if isinstance(r.record, Profile))
    found: dict[str, dict[str, float]] = {"own": Counter(), "all": Counter()}  # type: ignore[dict-item]
    for chain, weight in zip(profile.rows.chain.tolist(), profile.rows.weight.tolist(), strict=True):
        names = profile.names(chain)
        for name in names[:1]:
            found["own"][name] += weight
        for name in set(names):
            found["all"][name] += weight
    return found


def without_blanks(text: str, lost: str) -> str:
    """Runs of blanks squeezed, those before a line gone, or both."""
    bare = each_line(lambda _, line: line.lstrip() if lost != "squeezed" else line)(text)
    return re.sub(r"[ \t]+", " ", bare) if lost != "stripped" else bare


@pytest.mark.parametrize("lost", ["squeezed", "stripped", "both"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_without_indentation_is_read_by_its_bars(graph: str, lost: str) -> None:
    """Each function has the shares that it has in the text as perf printed it."""
    text = fixture(f"perf_report/{graph}")
    whole, left = shares_of(text), shares_of(without_blanks(text, lost))
    for kind in ("own", "all"):
        assert left[kind] == pytest.approx(whole[kind], abs=0.01)


@pytest.mark.parametrize("lost", ["squeezed", "stripped", "both"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_whose_bars_make_no_sense_says_only_what_is_certain(graph: str, lost: str) -> None:
    """Own shares are as printed; no function has more than in the whole graph, and a Problem tells what is lost."""
    text = fixture(f"perf_report/{graph}")
    bare = without_blanks(text.replace("|", ""), lost)
    whole, left = shares_of(text), shares_of(bare)
    assert left["own"] == pytest.approx(whole["own"], abs=0.01)
    more = {name for name, share in left["all"].items() if share > whole["all"].get(name, 0.0) + 0.02}
    told = any(
        "lost their indentation" in r.record.text for r in readings(bare.encode()) if isinstance(r.record, Problem)
    )
    assert told or not more
    assert more == set()


@pytest.mark.parametrize("form", ["overhead_field", "overhead_before_children", "children_field"])
def test_a_graph_with_callees_adds_nothing_to_the_own_share(form: str) -> None:
    """`perf report -F`: whatever columns there are, what a function did itself is its own share, under its callers."""
    found = shares_of(fixture(f"perf_report/{form}"))
    printed = {"clear_page_erms": 19.06, "exc_page_fault": 13.73, "_raw_spin_unlock_irqrestore": 8.0, "fault": 7.54}
    for name, share in printed.items():
        least = share - 0.01 if form != "children_field" else share / 2  # small chains are not printed
        assert least <= found["own"][name] <= share + 0.01
    assert found["all"]["main"] <= found["all"]["__libc_start_call_main"] <= 100
    inclusive = found["all"]["do_anonymous_page"]
    assert inclusive == pytest.approx(49.87) if form == "children_field" else 19 < inclusive < 49.87
    assert found["own"]["main"] == 0


@pytest.mark.parametrize(
    "rows",
    [
        "    1 ?   Ss   0:03 /sbin/init\n    2 ?   S   0:00 [kthreadd]\n    3 ?   S   0:00 [rcu]\n",
        "  0:    12    0   IO-APIC   2-edge   timer\n  1:    10    0   IO-APIC   1-edge   i8042\n",
        "1 compute;main\n2 clear_page_erms;do_huge_pmd_anonymous_page\n3 compact_zone;try_to_compact_pages\n",
    ],
)
def test_what_only_looks_like_line_numbers(rows: str) -> None:
    """Process ids, interrupts, and counts in front of stacks stay where they are."""
    found = [r.record for r in readings(rows.encode(), "pasted.txt")]
    weights = [w for r in found if isinstance(r, Profile) for w in r.rows.weight.tolist()]
    assert weights in ([], [1.0, 2.0, 3.0])


TABLES = (
    *("vmstat", "top", "ps", "sar", "pidstat", "iostat", "mpstat", "free", "numastat", "slabtop", "collectl_text"),
    *("buddyinfo", "perf_report", "perf_top", "smaps", "proc_meminfo", "proc_vmstat", "pid_status"),
)
WRAPS = {"terminal of 80": hard(80), "terminal of 100": hard(100), "mail of 72": soft(72)}
# Of these something else is read: chains, rows without a header, commands and lists of masks, whose end nothing tells.
UNMENDED = {
    "perf_report/folded_chains", "perf_report/overhead_field", "perf_report/children_field", "ps/no-header",
    "perf_report/overhead_before_children", "perf_report/separated", "perf_report/by_pid_verbose",
    "perf_report/children_caller", "perf_top/by_task", "perf_top/el6", "perf_top/mail", "ps/alx", "sar/everything",
    "buddyinfo/arm64-64k-pages", "pid_status/kernel-6.18", "proc_vmstat/pauses-of-commands",
}  # fmt: skip


@pytest.mark.parametrize("form", WRAPS)
def test_wrapped_tables_are_joined(form: str) -> None:
    """Tables broken at a width give the same records as whole ones, or some of them, and never others."""
    changed, same, others = 0, 0, set()
    for name, text in fixtures().items():
        whole = text.expandtabs()
        if name.split("/")[0] in TABLES and (broken := WRAPS[form](whole)).rstrip("\n") != whole.rstrip("\n"):
            here, there = without_problems(whole), without_problems(broken)
            changed, same = changed + 1, same + (here == there)
            others |= {name} if there - here else set()
    assert changed > 10
    assert others <= UNMENDED
    assert same >= changed - 15


# The last column of a table that has one anyway, an indentation that a format asks for, two dashes alone, a table that
# a mail program had broken before.
PASTES_UNMENDED = {"start_up_state/ls-rc-local", "perf_script/only_names", "atop_parseable/version-1", "perf_top/mail"}
# Rows that happen to have as many cells once they are cut, screens of perf top that lost their first lines.
CUTS_UNMENDED = {
    "atop_parseable/recording", "atop_parseable/underscores", "perf_report/overhead_field", "perf_script/tracepoint",
    "perf_top/by_task", "thp_sysfs/kernel-6.18-grep",
}  # fmt: skip


@pytest.mark.parametrize("form", WHOLE)
def test_what_a_paste_adds_is_taken_off(form: str) -> None:
    """Indented, quoted, in lists, double-spaced, with the quotes and dashes of an editor: the same is read."""
    texts = fixtures()
    names = sampled(sorted(texts), form, 12)
    others = {name for name in names if without_problems(WHOLE[form](texts[name])) != without_problems(texts[name])}
    assert others <= PASTES_UNMENDED


@pytest.mark.parametrize("form", [*CHANGED, *SHORT])
def test_a_part_of_a_value_is_no_value(form: str) -> None:
    """Lines that are cut or broken, columns that became cells: no other number or setting, no larger share."""
    texts = fixtures()
    change = {**CHANGED, **SHORT}[form]
    assert {n for n in sampled(sorted(texts), form, 24) if strays(texts[n], change(texts[n]))} <= CUTS_UNMENDED


@cache
def without_problems(text: str) -> Counter[str]:
    """The records of a text, without lines and digits shown."""
    rows = [(type(r.record), plain(r.record)) for r in readings(text.encode(), "pasted.txt")]
    places = {Sample: (0, 1, 2, 3, 5), Fact: (0, 1, 2, 3, 4), Event: (0, 1, 2, 3)}
    for kind, row in rows:
        if kind is Profile:
            row["first"] = [part[:4] for part in row["first"]]
    return Counter(
        json.dumps([kind.__name__, [row[at] for at in places[kind]] if kind in places else row], sort_keys=True)
        for kind, row in rows
        if kind is not Problem
    )


def test_whole_tables_stay_as_they_are() -> None:
    """No line of a fixture is joined with the next one but those that a mail program has broken."""
    for path in sorted((ROOT / "fixtures").rglob("*")):
        if path.is_file() and path.stat().st_size <= MAX_BYTES and path.parts[-3:-1] != ("perf_top", "mail"):
            lines = [TextLine(n, line) for n, line in enumerate(path.read_text("utf-8", "replace").split("\n"))]
            assert list(join_wrapped_rows(lines)) == lines, path


LOST_BLANKS = {
    "squeezed and stripped": each_line(lambda _, line: re.sub(r"[ \t]+", " ", line).strip()),
    "tabs expanded": each_line(lambda _, line: line.expandtabs()),
}


# Formats that are known by their columns or indentation: without blanks nothing of them is read.
NEED_BLANKS = {
    *(
        "bcc",
        "bpftrace",
        "function_graph",
        "interrupts",
        "java_flags",
        "java_native_memory",
        "jfr",
        "pprof",
        "softirqs",
    ),
    *(
        "below",
        "colmux",
        "kubectl_node",
        "kubectl_pod",
        "perf_c2c",
        "perf_kvm",
        "perf_lock",
        "perf_sched",
        "virsh",
        "systemd_cgls",
    ),
}


@pytest.mark.parametrize("form", LOST_BLANKS)
def test_lost_blanks_make_no_other_facts(form: str) -> None:
    """Runs of blanks that became one, blanks before a line that are gone: nearly all is read, and nothing else.

    Without indentation the chains of perf's flat graphs are less than they were, and said to be; names alone are stacks
    of tasks, each at one moment.
    """
    others, less = set(), 0
    for name, text in fixtures().items():
        here, there = without_problems(text), without_problems(LOST_BLANKS[form](text))
        others |= {name} if there - here else set()
        less += here != there and name.partition("/")[0] not in NEED_BLANKS
    assert others <= {"perf_report/flat_chains", "perf_script/only_names"}
    assert less <= 6


def test_entities_are_signs() -> None:
    """A web page that escaped a text twice, or a copy of its source."""
    assert sum(html.escape(text, quote=False) != text for text in fixtures().values()) > 50
    assert differing(lambda text: html.escape(text, quote=False).encode()) == set()


def test_tags_of_a_forum_are_taken_off() -> None:
    """Around a text, on its first and last line."""
    assert differing(lambda text: f"[FONT=Courier New][code]{text.rstrip()}[/code][/FONT]\n".encode()) == set()


def test_a_word_in_brackets_may_be_bold() -> None:
    """As Markdown marks the setting in force."""
    text = "$ cat /sys/kernel/mm/transparent_hugepage/enabled\n{}always{}] madvise never\n"
    assert what_is_read(text.format("[**", "**").encode()) == what_is_read(text.format("[", "").encode())


@pytest.mark.parametrize("name", ["perf_report/browser_copy", "perf_report/browser_copy_collapsed", "perf_top/current"])
def test_the_scroll_bar_of_a_browser_is_taken_off(name: str) -> None:
    """What perf's browser draws at the right edge of each line."""
    text = fixtures()[name]
    with_bar = "".join(f"{line:<100}{'▒◆'[n == 3]}\n" for n, line in enumerate(text.splitlines()))
    assert what_is_read(with_bar.encode()) == what_is_read(text.encode())
