"""A short session, the forms in which it reaches support, and what is read of a text."""

from __future__ import annotations

import html
import io
from collections.abc import Callable

from analyze_bytes import STDIN, STRICT
from parse_bytes import readings
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import read_input
from thpdiag.model import Case, Event, Fact, Record, Sample

THP = "/sys/kernel/mm/transparent_hugepage"
RHEL6 = "/sys/kernel/mm/redhat_transparent_hugepage"
ENABLED, DEFRAG = "thp.enabled", "thp.defrag"


def session(stem: str = "[root@db1 ~]# ") -> str:
    """Return counters, a change, and counters again."""
    return "\n".join([
        f"{stem}cat {THP}/enabled", "[always] madvise never",
        f"{stem}cat /proc/vmstat", "nr_free_pages 51200", "compact_stall 700", "compact_fail 650", "",
        f"{stem}echo never > {THP}/enabled",
        f"{stem}cat {THP}/enabled", "always madvise [never]",
        f"{stem}cat /proc/vmstat", "nr_free_pages 61200", "compact_stall 701", "compact_fail 650", "",
    ])  # fmt: skip


def records(text: str | bytes) -> list[Record]:
    return [r.record for r in readings(text if isinstance(text, bytes) else text.encode())]


def essence(text: str | bytes) -> list[object]:
    """Return what was typed and measured, without lines and names."""
    found: list[object] = []
    for record in records(text):
        match record:
            case Fact() if record.name in ("thp.enabled", "thp.defrag"):
                found.append((record.name, record.value, record.provenance))
            case Sample():
                found.append(sorted(record.values.items()))
            case Event() if record.kind == "setting_written":
                found.append((record.fields["setting"], record.fields["value"], record.fields["how"]))
    return found


def told(text: str) -> list[tuple[str, str, str]]:
    """Return the writes of a text: setting, value, how."""
    return [
        (r.fields["setting"], r.fields["value"], r.fields["how"])
        for r in records(text)
        if isinstance(r, Event) and "setting" in r.fields
    ]


def hosts_in(text: str) -> list[Case]:
    """Return the hosts of a text."""
    return host_cases(read_input([STDIN], STRICT, stdin=io.BytesIO(text.encode())), STRICT)


def case(text: str) -> Case:
    """Return the only host of a text."""
    (found,) = hosts_in(text)
    return found


def _html(text: str) -> str:
    rows = "<br>\n".join(html.escape(line).replace("  ", " &nbsp;") for line in text.split("\n"))
    return f"<html><body><p>Hello,</p><p><font face=courier>{rows}</font></p></body></html>"


def _pre(text: str) -> str:
    return f"<div>Hi</div>\n<pre class='x'>\n{html.escape(text)}</pre>\n<p>Regards</p>"


def _coloured(text: str) -> str:
    return "\n".join(f"\x1b]0;root@db1:~\x07\x1b[01;32m{line[:5]}\x1b[00m{line[5:]}\x1b[K" for line in text.split("\n"))


def _typographic(text: str) -> str:
    return text.replace(" ", "\u00a0").replace("'", "\u2019").replace("-", "\u2013")


DRESSES: dict[str, Callable[[str], str]] = {
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    "quoted tightly": lambda text: "\n".join(f">{line}" for line in text.split("\n")),
    "quoted twice": lambda text: "\n".join(f">> {line}" for line in text.split("\n")),
    "quoted twice apart": lambda text: "\n".join(f"> > {line}" for line in text.split("\n")),
    "indented": lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
    "indented by tabs": lambda text: "\n".join(f"\t{line}" for line in text.split("\n")),
    "html": _html,
    "pre": _pre,
    "coloured": _coloured,
    "typographic": _typographic,
    "dos": lambda text: text.replace("\n", "\r\n"),
    "old mac": lambda text: text.replace("\n", "\r"),
    "trailing blanks": lambda text: "\n".join(f"{line}   " for line in text.split("\n")),
    "byte order mark": lambda text: "\ufeff" + text,
    "zero width": lambda text: text.replace("always", "\u200balways\u200b"),
    "code fence": lambda text: f"Hello\n\n```\n{text}\n```\n\nBye",
    "jira": lambda text: f"{{noformat}}\n{text}\n{{noformat}}",
    "mail": lambda text: f"From: Jo <jo@example.org>\nSubject: slow\n\nHello,\n\nsee below.\n\n{text}\n\nRegards\nJo",
    "script": lambda text: f"Script started on Fri 20 Nov 2026 03:35:43 AM UTC\n{text}\n"
    f"Script done on Fri 20 Nov 2026 03:36:43 AM UTC",
}  # fmt: skip
