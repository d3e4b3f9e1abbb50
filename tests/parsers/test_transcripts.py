"""Terminal sessions and pasted tickets: every prompt, quoting and loop gives what was typed and measured.

One short session is dressed up in all the ways in which it reaches support; what is read of it must not change.
"""

from __future__ import annotations

import pytest

from parse_bytes import readings
from pasted_sessions import DRESSES, case, essence, hosts_in, records, session
from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.detect.transcript import parse_prompt
from thpdiag.model import Fact, Sample

STEMS = (
    "# ", "#", "$ ", "% ", "[root@db1 ~]# ", "[root@db1 ~]#", "[root@db1.example.org /var/log]# ", "[root@db1: ~]# ",
    "[root@db1:~]# ",
    "root@db1:~# ", "oracle@db1:/u01/app$ ", "root@db1:/home/my dir# ", "db1:~ # ", "db1:/var/log # ", "bash-4.1# ",
    "-bash-4.2# ",
    "sh-4.2$ ", "db1# ", "db1$ ", "root@db1 ~ # ", "root@db1 /root# ", "db1 ~ # ", "(base) [root@db1 ~]# ",
    "(venv) user@db1:~$ ",
    "[12:00:01 root@db1 ~]# ", "[10:31:02] root@db1:~# ", "[jo@db1 ~]$ sudo ", "[ec2-user@ip-10-0-0-1 ~]$ ",
    "root@db1> ", "root@db1 # ",
    "root@db1# ", "➜  ~ ", "❯ ", "~ # ", "/ # ", "/home # ", "+ ", "++ ", "2026-11-20 03:35:43 root@db1:~# ",
    "[root@db1 ~] # ", "[root@db1]# ",
    "[root@db1]/root# ", "user@db1:~> ", "  [root@db1 ~]# ", "\t# ",
)  # fmt: skip


PLAIN = essence(session())


def test_the_plain_session_is_read_whole() -> None:
    """The measure of all that follows: two settings, two snapshots, one change."""
    assert [type(item) for item in PLAIN] == [tuple, list, tuple, tuple, list]
    assert PLAIN[2] == ("thp.enabled", "never", "prompt")


@pytest.mark.parametrize("stem", STEMS)
def test_every_prompt_is_one(stem: str) -> None:
    """Shells, distributions, virtual environments, clocks and `set -x`."""
    wanted = [x for x in PLAIN if not (isinstance(x, tuple) and x[0] == "thp.enabled" and x[2] == "prompt")]
    got = essence(session(stem))
    assert [x for x in got if not (isinstance(x, tuple) and x[0] == "thp.enabled" and x[2])] == wanted
    assert [x for x in got if isinstance(x, tuple) and x[2]] == [
        ("thp.enabled", "never", "sudo-redirect" if "sudo" in stem else "prompt")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# This is a comment", "# perf version : 3.10.0", "# hostname : db1", "$100 were paid",
        "# Samples: 12K of event 'cycles'", "# Overhead",
        "Load: 12 # of cpus", "price 5$ cat food", "http://x/~user# cat anchor", ">>> 12.5 <<<",
        "kernel: [   12.3] foo@bar: 12% done", "100% cat",
        "mysql> show status", "127.0.0.1:6379> INFO", ">>> import os", "#1 SMP Tue Nov 3", "#!/bin/sh",
        "# vim: set ts=4", "JD> time will tell",
        "a@b.org: /me $ thinks", "# TYPE node_load1 gauge", "Tasks: 4 % of", "12.3% [kernel]  [k] spin_lock",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_prompt(text: str) -> None:
    """Comments, prices, addresses, other programs' prompts."""
    assert parse_prompt(text) is None


def test_the_prompt_names_the_host() -> None:
    """Fully qualified or not, the host is the first part."""
    assert case(session("[root@db1.example.org ~]# ")).name == "db1"
    assert case(session("root@db1:~# ")).name == "db1"
    assert case(session("db1:~ # ")).name == "db1"


@pytest.mark.parametrize("dress", DRESSES)
def test_dress_changes_nothing(dress: str) -> None:
    """Quoting, markup, colours, line ends: the same session."""
    assert essence(DRESSES[dress](session())) == PLAIN


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "utf-8-sig"])
def test_encodings_change_nothing(encoding: str) -> None:
    """What Windows and old mail programs write."""
    text = "\ufeff" + session() if encoding == "utf-16-le" else session()
    assert essence(text.encode(encoding)) == PLAIN


@pytest.mark.parametrize("dress", ["quoted", "html", "indented", "coloured", "typographic", "dos"])
def test_the_dress_does_not_hide_the_states(dress: str) -> None:
    """Captures before and after are labelled by the change, however they were sent."""
    states = [s for s in case(DRESSES[dress](session())).states if s.samples]
    assert [s.settings.get("thp.enabled") for s in states] == ["always", "never"]


# Loops

STAMPS = {
    "date": ("Fri Nov 20 03:35:43 UTC 2026", "Fri Nov 20 03:35:53 UTC 2026"),
    "12 hours": ("Fri 20 Nov 2026 03:35:43 AM UTC", "Fri 20 Nov 2026 03:35:53 AM UTC"),
    "epoch": ("1795145743", "1795145753"),
    "epoch with nanoseconds": ("1795145743.123456789", "1795145753.123456789"),
    "ISO": ("2026-11-20T03:35:43+00:00", "2026-11-20T03:35:53+00:00"),
    "ISO with offset": ("2026-11-20T04:35:43+01:00", "2026-11-20T04:35:53+01:00"),
    "plain ISO": ("2026-11-20 03:35:43", "2026-11-20 03:35:53"),
    "OSWatcher": ("zzz ***Fri Nov 20 03:35:43 UTC 2026", "zzz ***Fri Nov 20 03:35:53 UTC 2026"),
    "pt-stalk": ("TS 1795145743.005 2026-11-20 03:35:43", "TS 1795145753.005 2026-11-20 03:35:53"),
    "ruled": ("=== Fri Nov 20 03:35:43 UTC 2026 ===", "=== Fri Nov 20 03:35:53 UTC 2026 ==="),
    "German": ("Fr 20. Nov 03:35:43 UTC 2026", "Fr 20. Nov 03:35:53 UTC 2026"),
    "French": ("ven. 20 nov. 2026 03:35:43 UTC", "ven. 20 nov. 2026 03:35:53 UTC"),
    "RFC 2822": ("Fri, 20 Nov 2026 03:35:43 +0000", "Fri, 20 Nov 2026 03:35:53 +0000"),
    "local zone": ("Fri Nov 20 03:35:43 CET 2026", "Fri Nov 20 03:35:53 CET 2026"),
}


@pytest.mark.parametrize("form", STAMPS)
def test_a_loop_frames_its_snapshots(form: str) -> None:
    """Ten seconds lie between the two snapshots, and the blank line between them is no part of either."""
    one, two = STAMPS[form]
    counters = "nr_free_pages 1\ncompact_stall %d\ncompact_fail 3\n"
    text = f"{one}\n{counters % 700}\n{two}\n{counters % 720}"
    samples = [r for r in records(text) if isinstance(r, Sample)]
    assert [s.values["node_vmstat_compact_stall"] for s in samples] == [700, 720]
    times = [s.time for s in samples]
    assert all(times)
    assert abs(times[1].minus(times[0]) - 10) < 0.01  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("text", ["1970-01-01 00:00:00", "0", "99999999999", "2026-13-45 99:99:99",
"Fri Feb 30 03:35:43 UTC 2026", "12:34", "",
                                  "May the force be with you", "20 Nov", "Nov 20 03:35:43 db1 kernel: x",
                                  "100 200 300 400"])  # fmt: skip
def test_what_is_no_stamp(text: str) -> None:
    """Impossible dates, small numbers, prose and log lines; the first day of Unix is a clock that was never set."""
    found = parse_timestamp(text)
    assert found is None or text.startswith("1970")


# Who speaks


def test_a_quoted_uname_never_overrides() -> None:
    """A helper quotes the kernel of his own machine; the measured host keeps its own."""
    text = f"[root@db1 ~]# uname -r\n2.6.32-220.el6.x86_64\n{session()}\n\nOn Monday, Al Helper wrote:\n\n"
    text += "> I see the same on my box:\n> Linux alsbox 4.18.0-305.el8.x86_64 #1 SMP x86_64 GNU/Linux\n"
    found = [f.value for f in case(text).facts if f.name == "kernel.release"]
    assert found == ["2.6.32-220.el6.x86_64"]


def test_a_comment_of_another_speaker_is_a_note() -> None:
    """Numbered comments of a page: the other kernel has no influence and is told as a note."""
    text = f"[root@db1 ~]# uname -a\nLinux db1 2.6.32-220.el6.x86_64 #1 SMP x86_64 GNU/Linux\n{session()}\n\n"
    text += "1. Maria Moss\n\nWe have kernel 5.4.0-42-generic on Ubuntu 20.04 and no such directory.\n\n"
    host = case(text)
    assert [f.value for f in host.facts if f.name == "kernel.release"] == ["2.6.32-220.el6.x86_64"]
    assert any("5.4.0-42" in note.text for note in host.notes)


def test_two_hosts_in_one_text_are_two_cases() -> None:
    """Each prompt's host keeps its own counters and settings."""
    one, two = session("[root@db1 ~]# "), session("[root@db2 ~]# ").replace("700", "5").replace("701", "6")
    found = hosts_in(f"{one}\n{two}")
    assert sorted(c.name for c in found) == ["db1", "db2"]
    stalls = {c.name: [s.values["node_vmstat_compact_stall"] for st in c.states for s in st.samples] for c in found}
    assert stalls == {"db1": [700, 701], "db2": [5, 6]}


def test_a_kernel_named_in_prose_does_not_beat_uname() -> None:
    """`we also tried kernel ...` is hearsay."""
    text = f"we also tried kernel 4.19.12 with no luck\n[root@db1 ~]# uname -r\n3.10.0-229.el7.x86_64\n{session()}"
    measured = [f.value for f in case(text).facts if f.name == "kernel.release" and not f.provenance]
    assert measured == ["3.10.0-229.el7.x86_64"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres 9.6 on centos 6.5, 2.6.32-431.el6.x86_64, slow", {"CentOS 6.5", "2.6.32-431.el6.x86_64"}),
        ("slow since we moved from CentOS 7 to Ubuntu 22.04 nodes", {"Ubuntu 22.04"}),
        ("slow since we moved away from RHEL 7.9", set()),
        ("RHEL 8.6 is fine, RHEL 9.2 is not", set()),
        ("our Ubuntu 20.04 boxes (5.4.0-150-generic)", {"Ubuntu 20.04", "5.4.0-150-generic"}),
        ("bash 4.2.46-35.el7_9 on rocky linux 8.6", {"Rocky Linux 8.6"}),
        ("3.10.0-1160.el7.x86_64 is slow and 4.18.0-477.el8.x86_64 is not", set()),
    ],
)
def test_the_system_that_a_sentence_names(text: str, expected: set[str]) -> None:
    """The one that the host has, not one that it had; none where a sentence compares several."""
    found = [f for f in case(f"{text}\n{session()}").facts if f.provenance == "prose"]
    assert {f.value for f in found if f.name in ("os.name", "kernel.release")} == expected


def test_control_characters_hidden_as_entities_are_taken_off() -> None:
    """HTML may name an escape character; it is none in the text that is read."""
    text = "<html><body><p>x</p><p>[root@db1 ~]# uname -n&#27;[31m</p>"
    text += "<p>Linux db1 3.10.0-229.el7.x86_64 #1 SMP x86_64&#155;31m</p></body>"
    found = records(text)
    assert found
    assert not any(c in r.cite.text for r in found for c in "\x1b\x9b")


def test_what_follows_a_printed_file_without_a_prompt_is_read_too() -> None:
    """Somebody pasted the setting and, below a word of his own, the counters."""
    text = "[root@db1 ~]# cat /sys/kernel/mm/transparent_hugepage/defrag\n[always] madvise never\nthe loop:\n"
    text += "1700000000\nnr_free_pages 51200\ncompact_stall 700\ncompact_fail 650\n"
    found = [r.record for r in readings(text.encode())]
    assert [r.value for r in found if isinstance(r, Fact) and r.name == "thp.defrag"] == ["always"]
    assert [r.values["node_vmstat_compact_stall"] for r in found if isinstance(r, Sample)] == [700]
