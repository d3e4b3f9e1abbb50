r"""Control groups of processes: /proc/PID/cgroup, systemd-cgls, and the tree below `CGroup:` of systemctl status.

    /proc/742/cgroup:0::/system.slice/redis-server.service            12:memory:/system.slice/redis-server.service

    Control group /:                                  CGroup: /system.slice/redis-server.service
    -.slice                                                   └─742 /usr/bin/redis-server 127.0.0.1:6379
    └─system.slice (#1229)
      └─redis-server.service
        └─ 742 /usr/bin/redis-server 127.0.0.1:6379

`process.cgroup` is the path of the group; its last component that ends with .service is the unit of the process. In
/proc/PID/cgroup the longer path of version 2 (`0::`) and of systemd (`name=systemd`) is used, as one may be `/`; if
both are, that of memory. The file does not contain the pid: it comes from the path or grep's prefix, and without it the
lines are not used. The tree is drawn with box characters, or with `|-` on terminals without them; each level is two
columns wide; pids are padded with blanks. No branch of the same group can follow its last branch (`└─`): if one does,
blanks were lost, and the tree is not used. A group may be followed by its number (`(#1229)`). Source: kernel tree,
kernel/cgroup/cgroup.c (proc_cgroup_show); systemd src/shared/cgroup-show.c; recorded with 252.
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
_RANKS = {"": 2, "name=systemd": 2, "memory": 1}  # by controllers; the first two always have the group of the unit

_ROOT = re.compile(
    r"(?:Control group |Directory |\s{0,12}CGroup: )(?:/sys/fs/cgroup(?:/(?:systemd|unified))?(?=[/:]))?"
    r"(?P<path>[^\s:]{0,500}):?\s*$"
)
_BRANCH = re.compile(
    r"(?P<left>[\s│|]{0,200})(?P<sign>[├└](?=─)|[|`](?=-))[─-]\s{0,10}(?:(?P<pid>\d{1,10}) |(?P<group>\S{1,300}))"
)
_TREE = re.compile(r"[\s│|]{0,200}(?:[├└]─|[|`]-|→)|-\.slice(?: |$)|[\s│|]{1,200}$")
_LEVEL_COLUMNS = 2
MAX_PROCESSES = 20_000


def read_files(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield process.cgroup for each process."""
    path_pid = _PID.search(source.path)
    groups: dict[str, tuple[tuple[bool, int, int], Fact]] = {}
    for number, text in lines:
        match = _LINE.match(text)
        pid = match and (match["pid"] or (path_pid and path_pid[1]))
        rank = max(_RANKS.get(name, 0) for name in match["controllers"].split(",")) if match and pid else 0
        if not match or not pid or not rank or len(groups) >= MAX_PROCESSES:
            continue
        path = match["path"].rstrip()
        preference = path != "/", rank, len(path)
        if pid not in groups or preference > groups[pid][0]:
            fact = Fact("process.cgroup", path, source.cite(number, text), (("pid", pid),), source.time)
            groups[pid] = preference, fact
    yield from (fact for _, fact in groups.values())


PROC_CGROUP = Parser(
    "proc_pid_cgroup", "/proc/PID/cgroup", read_files,
    opens=_OPENS_LINE, continues=_LINE.match, paths=(re.compile(r"proc/\d+/(?:task/\d+/)?cgroup$"),),
)  # fmt: skip


def read_tree(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield process.cgroup for each process of the tree; nothing if blanks of the tree were lost."""
    root, first_column = "", None
    names: list[str] = []
    ended: set[int] = set()  # levels whose last branch has passed
    facts: list[Fact] = []
    for number, text in lines:
        if head := _ROOT.match(text):
            root, first_column, names, ended = head["path"].rstrip("/"), None, [], set()
        elif branch := _BRANCH.match(text):
            column = len(branch["left"])
            first_column = column if first_column is None else first_column
            depth = max(column - first_column, 0) // _LEVEL_COLUMNS
            if depth > len(names) or depth in ended:
                return
            ended = {level for level in ended if level < depth} | ({depth} if branch["sign"] in "└`" else set())
            del names[depth:]
            if branch["group"]:
                names.append(branch["group"])
            elif len(facts) < MAX_PROCESSES:
                path = "/".join([root, *names]) or "/"
                cite = source.cite(number, text)
                facts.append(Fact("process.cgroup", path, cite, (("pid", branch["pid"]),), source.time))
    yield from facts


SYSTEMD_CGLS = Parser(
    "systemd_cgls", "systemd-cgls, systemctl status", read_tree,
    opens=_ROOT, confirm=lambda lines: any(map(_BRANCH.match, lines[1:3])), continues=any_of(_ROOT, _TREE),
)  # fmt: skip
