r"""The control group of processes: /proc/PID/cgroup, systemd-cgls, and the tree below `CGroup:` of systemctl status.

    /proc/742/cgroup:0::/system.slice/redis-server.service            12:memory:/system.slice/redis-server.service

    Control group /:                                  CGroup: /system.slice/redis-server.service
    -.slice                                                   └─742 /usr/bin/redis-server 127.0.0.1:6379
    └─system.slice (#1229)
      └─redis-server.service
        └─ 742 /usr/bin/redis-server 127.0.0.1:6379

`process.cgroup` is the path of the group, whose last part that ends with .service is the unit of the process. Of
/proc/PID/cgroup the line of version 2 (`0::`) or of systemd (`name=systemd`) counts, the longer of them, as one may be
`/`; where both are, that of memory. A file has no process number inside: it comes from the path or
grep's prefix, and without it nothing is known. The tree is drawn with lines, or with `|-` where the terminal has
none; each level is two columns wide; process numbers are padded with blanks. Behind the last branch of a group (`└─`)
no other of that group can follow: where one does, blanks were lost, and nothing is known of what is where. A group
may have its number behind it (`(#1229)`). Source: kernel tree, kernel/cgroup/cgroup.c (proc_cgroup_show); systemd
src/shared/cgroup-show.c; recorded with 252.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import any_of

_PID = re.compile(r"proc/(\d{1,10})/(?:task/\d{1,10}/)?cgroup$")
_LINE = re.compile(
    r"(?:\S{0,200}proc/(?P<pid>\d{1,10})/(?:task/\d{1,10}/)?cgroup:)?\d{1,3}:(?P<controllers>[\w=,.-]{0,200}):(?P<path>/.{0,1000})$"
)
_OPENS_LINE = re.compile(r"\S{0,200}proc/\d{1,10}/(?:task/\d{1,10}/)?cgroup:\d{1,3}:[\w=,.-]{0,200}:/")
_RANKS = {"": 2, "name=systemd": 2, "memory": 1}  # by controllers: who makes the group of a unit, who may have others

_ROOT = re.compile(
    r"(?:Control group |Directory |\s{0,12}CGroup: )(?:/sys/fs/cgroup(?:/(?:systemd|unified))?(?=[/:]))?"
    r"(?P<path>[^\s:]{0,500}):?\s*$"
)
_BRANCH = re.compile(
    r"(?P<left>[\s│|]{0,200})(?P<sign>[├└](?=─)|[|`](?=-))[─-]\s{0,10}(?:(?P<pid>\d{1,10}) |(?P<group>\S{1,300}))"
)
_TREE = re.compile(r"[\s│|]{0,200}(?:[├└]─|[|`]-|→)|-\.slice(?: |$)|[\s│|]{1,200}$")
_LEVEL = 2  # columns
MAX_PROCESSES = 20_000


def read_files(source: Source, lines: Lines) -> Iterator[Record]:
    """A fact of each process."""
    named = _PID.search(source.path)
    groups: dict[str, tuple[tuple[bool, int, int], Fact]] = {}
    for number, text in lines:
        found = _LINE.match(text)
        pid = found and (found["pid"] or (named and named[1]))
        rank = max(_RANKS.get(name, 0) for name in found["controllers"].split(",")) if found and pid else 0
        if not found or not pid or not rank or len(groups) >= MAX_PROCESSES:
            continue
        path = found["path"].rstrip()
        standing = path != "/", rank, len(path)
        if pid not in groups or standing > groups[pid][0]:
            fact = Fact("process.cgroup", path, source.cite(number, text), (("pid", pid),), source.time)
            groups[pid] = standing, fact
    yield from (fact for _, fact in groups.values())


PROC_CGROUP = Parser(
    "proc_pid_cgroup", "/proc/PID/cgroup", read_files,
    opens=_OPENS_LINE, continues=_LINE.match, paths=(re.compile(r"proc/\d+/(?:task/\d+/)?cgroup$"),),
)  # fmt: skip


def read_tree(source: Source, lines: Lines) -> Iterator[Record]:
    """A fact of each process of the tree; none where the tree has lost its shape."""
    root, first = "", None
    names: list[str] = []
    ended: set[int] = set()  # levels whose last branch was seen
    found: list[Fact] = []
    for number, text in lines:
        if head := _ROOT.match(text):
            root, first, names, ended = head["path"].rstrip("/"), None, [], set()
        elif branch := _BRANCH.match(text):
            place = len(branch["left"])
            first = place if first is None else first
            depth = max(place - first, 0) // _LEVEL
            if depth > len(names) or depth in ended:
                return
            ended = {level for level in ended if level < depth} | ({depth} if branch["sign"] in "└`" else set())
            del names[depth:]
            if branch["group"]:
                names.append(branch["group"])
            elif len(found) < MAX_PROCESSES:
                path = "/".join([root, *names]) or "/"
                cite = source.cite(number, text)
                found.append(Fact("process.cgroup", path, cite, (("pid", branch["pid"]),), source.time))
    yield from found


SYSTEMD_CGLS = Parser(
    "systemd_cgls", "systemd-cgls, systemctl status", read_tree,
    opens=_ROOT, confirm=lambda lines: any(map(_BRANCH.match, lines[1:3])), continues=any_of(_ROOT, _TREE),
)  # fmt: skip
