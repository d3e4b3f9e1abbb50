"""Texts whose parts are not in the order of time: the settings of the latest part are in force, wherever it is."""

from __future__ import annotations

import pytest

from analyze_bytes import document, found

HOST = "[root@db1 ~]# "
ENABLED = f"{HOST}cat /sys/kernel/mm/transparent_hugepage/enabled\n"
STACKS = """\
# Overhead  Command  Shared Object      Symbol
# ........  .......  .................  ......
    62.10%  java     [kernel.kallsyms]  [k] _raw_spin_lock_irqsave
            |
            --- _raw_spin_lock_irqsave
                compact_zone
                compact_zone_order
                try_to_compact_pages
                __alloc_pages_direct_compact
                __alloc_pages_nodemask
                alloc_pages_vma
                do_huge_pmd_anonymous_page
                handle_mm_fault
                __do_page_fault
                page_fault
    10.00%  java     libjvm.so          [.] JVM_Foo
"""
OLD = f"{ENABLED}[always] madvise never\n{HOST}perf report --stdio\n{STACKS}\n"
NEW = f"{HOST}uname -r\n3.10.0-1160.el7.x86_64\n{ENABLED}always madvise [never]\n\n"


def quoted(text: str, mark: str = "> ") -> str:
    return "".join(f"{mark}{line}\n" if line else f"{mark.rstrip()}\n" for line in text.splitlines())


def dated(day: int, text: str) -> str:
    return f"{HOST}date\nMon Nov {day:2d} 12:00:00 UTC 2026\n{text}"


def mail(sent: str, text: str, who: str = "From: Bob Miller <bob@example.com>") -> str:
    return f"{who}\n{sent}\nTo: Support\nSubject: RE: slow\n\nSee below.\n\n{text}\n"


NEWEST_FIRST = {
    "pastes with date": dated(10, NEW) + dated(9, OLD),
    "files beside date": dated(10, NEW).replace("# date\n", "# date; cat /proc/stat\n")
    + dated(9, OLD).replace("# date\n", "# date; cat /proc/stat\n"),
    "quoted": f"All is quiet:\n\n{NEW}\nOn Mon, 9 Nov 2026 at 12:00, Jan Maier <j@example.com> wrote:\n{quoted(OLD)}",
    "quoted in German": f"Ruhig:\n\n{NEW}\nAm 09.11.2026 um 12:00 schrieb Jan Maier:\n{quoted(OLD)}",
    "quoted in a quote": f"Thanks\n\nBob wrote:\n{quoted(NEW)}> Jan Maier wrote:\n{quoted(OLD, '>> ')}",
    "Outlook": mail("Sent: Tuesday, November 10, 2026 9:00 AM", NEW)
    + mail("Sent: Monday, November 9, 2026 12:00 PM", OLD),
    "Outlook in German": mail("Gesendet: Dienstag, 10. November 2026 09:00", NEW, "Von: Jan Maier")
    + mail("Gesendet: Montag, 9. November 2026 12:00", OLD, "Von: Jan Maier"),
    "dates of two zones": mail("Date: Tue, 10 Nov 2026 01:00:00 +0900", NEW)
    + mail("Date: Mon, 9 Nov 2026 16:30:00 +0100", OLD),
    "ServiceNow": f"2026-11-10 09:00:00 - Jan Maier (Additional comments)\nQuiet.\n{NEW}"
    f"2026-11-09 12:00:00 - Jan Maier (Additional comments)\nSlow.\n{OLD}",
}
LINE_ORDER = {
    "pastes with date": dated(9, OLD) + dated(10, NEW),
    "answered below": f"On Mon, 9 Nov 2026 at 12:00, Bob wrote:\n{quoted(OLD)}\nAll is quiet since:\n\n{NEW}",
    "mails": mail("Date: Mon, 9 Nov 2026 16:30:00 +0100", OLD) + mail("Date: Tue, 10 Nov 2026 01:00:00 +0900", NEW),
    "an old date that a command prints": dated(9, OLD) + f"{HOST}uptime -s\n2026-10-01 08:00:00\n{NEW}",
    "a date of files": dated(9, OLD) + f"{HOST}date -r /var/log/messages\nThu Oct  1 08:00:00 UTC 2026\n{NEW}",
    "clocks of two hosts": dated(9, OLD) + dated(9, NEW).replace("12:00:00", "11:59:30"),
    "a zone away": mail("Date: Tue, 10 Nov 2026 11:00", OLD) + mail("Date: Tue, 10 Nov 2026 02:30:00 -0700", NEW),
    "marked, quoting nobody": f"Before:\n\n{OLD}\nAfter:\n{quoted(NEW)}",
}


@pytest.mark.parametrize("text", [pytest.param(t, id=name) for name, t in {**NEWEST_FIRST, **LINE_ORDER}.items()])
def test_a_cure_that_was_read_later_makes_the_trouble_past(text: str) -> None:
    """Wherever in the text it was read."""
    result = document(text.encode())
    assert found(result)["THP-001"] == "likely"
    assert result["verdict"]["state"] == "past"


@pytest.mark.parametrize("text", [pytest.param(t, id=name) for name, t in {**NEWEST_FIRST, **LINE_ORDER}.items()])
def test_what_came_back_is_there_now(text: str) -> None:
    """The same texts, with the stacks in the part that is of today, where huge pages are on again."""
    marks = ("> ", ">> ", "")
    older, newer = ({mark: quoted(part, mark) if mark else part for mark in marks} for part in (OLD, NEW))
    mark = next(m for m in marks if older[m] in text)
    other = next(m for m in marks if newer[m] in text)
    swapped = text.replace(older[mark], "@OLD@").replace(newer[other], "@NEW@")
    swapped = swapped.replace("@OLD@", newer[mark]).replace("@NEW@", older[other])
    result = document(swapped.encode())
    assert found(result)["THP-001"] == "likely"
    assert result["verdict"]["state"] == "present"


def test_a_switch_below_its_effect_in_an_older_mail_is_no_cure() -> None:
    """What got better in the newest mail got better after the switch in the mail that it quotes."""
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    rows = {us: f" 9  0      0 400000   1000 200000    0    0    10   100 2000 3000 {us} {sy} {100 - us - sy} 0 0\n" * 8
            for us, sy in ((20, 70), (50, 4))}  # fmt: skip
    defrag = "/sys/kernel/mm/transparent_hugepage/defrag"
    old = (
        f"{HOST}cat {defrag}\n[always] defer defer+madvise madvise never\n{HOST}vmstat 5\n{head}{rows[20]}"
        f"{HOST}echo never > {defrag}\n"
    )
    new = f"{HOST}cat {defrag}\nalways defer defer+madvise madvise [never]\n{HOST}vmstat 5\n{head}{rows[50]}"
    result = document(f"Better:\n\n{new}\nOn Mon, 9 Nov 2026 at 12:00, Bob wrote:\n{quoted(old)}".encode())
    assert found(result)["THP-006"] == "confirmed"
    assert result["verdict"]["state"] == "past"


def test_thousands_of_quotes_change_nothing() -> None:
    """The order of the lines stands where there are too many parts to order."""
    noise = "".join(f"Bob wrote:\n{'>' * (1 + n % 3)} word\n" for n in range(3000))
    result = document(f"{OLD}{noise}{NEW}".encode())
    assert result["verdict"]["state"] == "past"
