"""The path of a file and what is in it, however both are written: the same facts, or none, never an assumed setting."""

from __future__ import annotations

import base64
import io
import json
import random
import re
from collections.abc import Mapping, Sequence

import pytest

from analyze_bytes import STDIN, STRICT, document
from named_layouts import BLOCKS, LINES, Files, Layout
from parse_bytes import faults, line_count, readings
from thpdiag.detect import blocks
from thpdiag.detect.named_files import JsonFile, files_in_json
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import read_input
from thpdiag.model import Fact, Problem, ProblemKind, Record, Sample, Series

MM = "/sys/kernel/mm/transparent_hugepage"
ONE_LINE: Files = {
    f"{MM}/enabled": "always [madvise] never",
    f"{MM}/defrag": "always defer defer+madvise madvise [never]",
    f"{MM}/shmem_enabled": "always within_size advise [never] deny force",
    f"{MM}/khugepaged/defrag": "0",
    f"{MM}/khugepaged/max_ptes_none": "409",
    f"{MM}/hugepages-64kB/enabled": "always inherit madvise [never]",
    "/proc/sys/vm/min_free_kbytes": "67584",
    "/proc/sys/vm/zone_reclaim_mode": "0",
    "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-5.14.21 root=UUID=1 transparent_hugepage=madvise quiet",
    "/proc/uptime": "350735.47 234388.90",
}
LONGER: Files = {
    "/etc/default/grub": 'GRUB_DISTRIBUTOR="SLES"\nGRUB_CMDLINE_LINUX_DEFAULT="quiet transparent_hugepage=never"\n',
    "/proc/buddyinfo": "Node 0, zone   Normal   4381   1093    185   1530    567    102      0      0      0   0   0\n",
    "/proc/meminfo": "MemTotal:       16266504 kB\nMemFree:          502344 kB\nAnonHugePages:   8312832 kB\n",
    "/proc/vmstat": "thp_fault_alloc 4711\nthp_fault_fallback 812\ncompact_stall 99213\ncompact_fail 98120\n",
}  # fmt: skip
ENABLED = (f"{MM}/enabled", f"{MM}/defrag")
KERNEL = "Linux db1 3.10.0-1160.el7.x86_64 #1 SMP x86_64 x86_64 x86_64 GNU/Linux\n\n"


def records(text: str, path: str = "ticket.txt") -> list[Record]:
    return [reading.record for reading in readings(text.encode(), path)]


def values(found: list[Record]) -> dict[object, object]:
    """What is known, by name and entity."""
    known: dict[object, object] = {}
    for record in found:
        if isinstance(record, Fact):
            known[record.name, record.labels] = record.value
        elif isinstance(record, Sample):
            known.update({(name, record.entity): value for name, value in record.values.items()})
        assert not isinstance(record, Series)
    return known


def known_settings(text: str) -> dict[str, tuple[object, str]]:
    """Value and provenance of the settings of the hosts that a text speaks of."""
    cases = host_cases(read_input([STDIN], STRICT, stdin=io.BytesIO(text.encode())), STRICT)
    facts = [f for case in cases for f in (*case.facts, *(f for state in case.states for f in state.facts))]
    return {f.name: (f.value, f.provenance) for f in facts if f.name in ("thp.enabled", "thp.defrag")}


def as_files(files: Files) -> dict[object, object]:
    """The same read from a sosreport."""
    known: dict[object, object] = {}
    for path, content in files.items():
        known.update(values(records(content, f"sosreport-db1-1{path}")))
    return known


@pytest.mark.parametrize("layout", [*BLOCKS.items(), *LINES.items()], ids=lambda layout: layout[0])
def test_files_of_one_line(layout: tuple[str, Layout]) -> None:
    """Each setting is what the file says, with the line on which it stands, and nothing else is told."""
    text = layout[1](ONE_LINE)
    found = records(text)

    assert values(found) == as_files(ONE_LINE)
    assert [r for r in found if isinstance(r, Problem)] == []
    assert not list(faults(found, line_count(text.encode())))
    lines = text.split("\n")
    enabled = next(r for r in found if isinstance(r, Fact) and r.name == "thp.enabled")
    assert enabled.cite.line is not None
    assert "[madvise]" in lines[enabled.cite.line - 1] or "JSON" in layout[0]


@pytest.mark.parametrize("layout", BLOCKS.items(), ids=lambda layout: layout[0])
def test_longer_files(layout: tuple[str, Layout]) -> None:
    """Tables and start-up files below their names are read as the files."""
    text = layout[1](LONGER)
    expected = {
        key: value for key, value in as_files(LONGER).items() if not (isinstance(key, tuple) and key[0] == "log.read")
    }
    assert values(records(text)) == expected


@pytest.mark.parametrize("layout", [*BLOCKS.items(), *LINES.items()], ids=lambda layout: layout[0])
def test_a_stated_setting_is_never_assumed(layout: tuple[str, Layout]) -> None:
    """Beside a kernel whose default is another one."""
    for word in ("always", "madvise", "never"):
        listed = "always madvise never".replace(word, f"[{word}]")
        assert known_settings(KERNEL + layout[1]({ENABLED[0]: listed}))["thp.enabled"] == (word, "")


UNPLACED: Mapping[str, str] = {
    "alone": "always madvise [never]\n",
    "with a name that is no path": "Current value: always madvise [never]\n",
    "in a sentence": "He says it shows always madvise [never] there.\n",
    "JSON without a path": '{"rc": 0, "stdout": "always madvise [never]"}\n',
    "Ansible without a path": "db1 | CHANGED | rc=0 >>\nalways madvise [never]\n",
    "below another file": "--- /etc/hosts ---\nalways madvise [never]\n",
    "cut": "/sys/kernel/mm/transparent_hugepage/enabled:\nalways madvise [nev\n",
    "without brackets": "/sys/kernel/mm/transparent_hugepage/enabled: always madvise never\n",
}


@pytest.mark.parametrize("text", UNPLACED.values(), ids=UNPLACED)
def test_a_list_without_a_place_makes_the_setting_unknown(text: str) -> None:
    """It may be this setting, and say otherwise than the default."""
    assert known_settings(KERNEL)["thp.enabled"] == ("always", "assumed")
    assert "thp.enabled" not in known_settings(KERNEL + text)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("THP: always madvise [never]", "thp.enabled", "never"),
        ("Transparent Huge Pages (THP): [always] madvise never", "thp.enabled", "always"),
        ("- **THP defrag**: always defer defer+madvise [madvise] never", "thp.defrag", "madvise"),
        ("| THP enabled | always [madvise] never |", "thp.enabled", "madvise"),
        ("Defrag: always defer defer+madvise [madvise] never", "thp.defrag", "madvise"),
        ('"msg": "/sys/kernel/mm/transparent_hugepage/enabled: always [madvise] never"', "thp.enabled", "madvise"),
        ("Transparent hugepages\n---------------------\nalways [madvise] never", "thp.enabled", "madvise"),
    ],
)
def test_words_for_the_file(text: str, name: str, value: str) -> None:
    """Huge pages and a list of the kernel beside them: that is the setting."""
    assert values(records(text + "\n"))[name, ()] == value


@pytest.mark.parametrize(
    "text",
    [
        "We looked at /proc/sys/vm/min_free_kbytes: 3 of 4 hosts had more.",
        "/sys/kernel/mm/transparent_hugepage/enabled is what counts, never mind the rest.",
        "/proc/cmdline shows transparent_hugepage=never on the other host",
        "see /etc/default/grub:\n\nI have not changed it.",
        "THP: we never had trouble with it",
        "1. /proc/sys/vm/swappiness\n2. /proc/sys/vm/min_free_kbytes\n3. 10 more",
    ],
)
def test_prose_that_names_a_path(text: str) -> None:
    """Where no content of that file stands there is none."""
    found = records(text + "\n")

    assert [r for r in found if isinstance(r, Fact | Sample | Problem) and not getattr(r, "provenance", "prose")] == []


def test_ansible_tells_the_host() -> None:
    """Two hosts in one paste are two cases."""
    text = "".join(
        f"{host} | CHANGED | rc=0 >>\nLinux {host} 5.14.21-150500.55.73-default #1 SMP x86_64\n"
        f"# {ENABLED[0]}\n{listed}\n"
        for host, listed in (("db1", "[always] madvise never"), ("db2", "always madvise [never]"))
    )
    found = {
        (reading.group[1], reading.record.value) for reading in readings(text.encode()) if is_enabled(reading.record)
    }

    assert found == {("db1", "always"), ("db2", "never")}


LISTED = {"db1": "[always] madvise never", "db2": "always madvise [never]"}
READ = f"cat {ENABLED[0]}"
ON_MANY = {
    "clush -b": f"$ clush -b -w db[1-2] {READ}\n"
    + "".join(f"---------------\n{host}\n---------------\n{listed}\n" for host, listed in LISTED.items()),
    "dshbak -c": f"$ pdsh -w db[1-2] {READ} | dshbak -c\n"
    + "".join(f"----------------\n{host}\n----------------\n{listed}\n" for host, listed in LISTED.items()),
    "pdsh": f"$ pdsh -w db[1-2] {READ}\n" + "".join(f"{host}: {listed}\n" for host, listed in LISTED.items()),
    "pdsh, mixed": f"$ pdsh -w db[1-2] '{READ}; grep compact_stall /proc/vmstat'\n"
    + "".join(f"{host}: {listed}\n" for host, listed in LISTED.items())
    + "".join(f"{host}: compact_stall 7\n" for host in LISTED),
    "Fabric": "".join(
        f"[{host}] run: {READ}\n[{host}] out: {listed}\n[{host}] out: \n" for host, listed in LISTED.items()
    ),
    "Ansible": f"$ ansible db -a '{READ}'\n"
    + "".join(f"{host} | CHANGED | rc=0 >>\n{listed}\n" for host, listed in LISTED.items()),
    **{
        f"heading {before}{after}": "".join(
            f"{before}{host}{after}\n$ {READ}\n{listed}\n" for host, listed in LISTED.items()
        )
        for before, after in (("=== ", " ==="), ("## ", ""), ("----- host ", " -----"), ("*** ", ": ***"))
    },
    "a message of a play": f"TASK [debug] {'*' * 67}\n"
    + "".join(f'ok: [{host}] => {{\n    "msg": "{ENABLED[0]}: {listed}"\n}}\n' for host, listed in LISTED.items()),
    "a command of a play, -v": f"TASK [read it] {'*' * 65}\n"
    + "".join(f"changed: [{h}] => {json.dumps({'cmd': READ.split(), 'stdout': text})}\n" for h, text in LISTED.items()),
    "a task for each, delegated": "".join(
        f"ok: [localhost -> {host}(10.9.8.7)] => (item=x) => {json.dumps({'cmd': READ, 'stdout': listed})}\n"
        for host, listed in LISTED.items()
    ),
}


@pytest.mark.parametrize("form", ON_MANY)
def test_what_a_command_prints_on_many_hosts_is_of_each_of_them(form: str) -> None:
    """Never the setting of one host for another."""
    found = {
        (reading.group[1], reading.record.value)
        for reading in readings(ON_MANY[form].encode())
        if is_enabled(reading.record)
    }
    assert found == {("db1", "always"), ("db2", "never")}


BOTH = LISTED.items()
ON_DB2 = f"[root@db2 ~]# {READ}\n{LISTED['db2']}\n"
BY_SSH = {
    "one by one": "".join(f"$ ssh -q root@{host} {READ}\n{listed}\n" for host, listed in BOTH),
    "quoted": "".join(f"$ ssh -o BatchMode=yes {host}.example.com '{READ}'\n{listed}\n" for host, listed in BOTH),
    "a line each": f"$ for h in db1 db2; do ssh $h {READ}; done\n" + "\n".join(LISTED.values()) + "\n",
    "names above": f"$ for h in db{{1..2}}; do echo \"== $h\"; ssh $h '{READ}; grep compact_stall /proc/vmstat'; done\n"
    + "".join(f"== {host}\n{listed}\ncompact_stall 7\n" for host, listed in BOTH),
    "names in a file": f"$ while read h; do echo $h; ssh -n $h {READ}; done < hosts\n"
    + "".join(f"{host}\n{listed}\n" for host, listed in BOTH),
    "names before": f'$ for h in $(cat hosts); do echo -n "$h: "; ssh $h {READ}; done\n'
    + "".join(f"{host}: {listed}\n" for host, listed in BOTH),
    "names by hostname": f"$ for h in db1 db2; do ssh $h 'hostname; {READ}'; done\n"
    + "".join(f"{host}\n{listed}\n" for host, listed in BOTH),
    "nodes": "".join(f"$ oc debug node/{host} -- chroot /host {READ}\n{listed}\n" for host, listed in BOTH),
    "below other commands": "".join(
        f"$ {before} {host}{after} {READ}\n{listed}\n"
        for (host, listed), (before, after) in zip(
            (*BOTH, *BOTH, *BOTH, *BOTH),
            (
                ("time ssh", ""),
                ("LC_ALL=C TERM=dumb ssh", ""),
                ("sudo -n -u ops ssh", ""),
                ("/usr/bin/ssh -q", ""),
                ("sshpass -e ssh", " -t"),
                ("ssh", " -l root"),
                ("nice -n 5 ssh", ""),
                ("rsh", ""),
            ),
            strict=True,
        )
    ),
    "pods": "".join(
        f"$ kubectl {options} {host} -c app -- {READ}\n{listed}\n"
        for (host, listed), options in zip(BOTH, ("exec -it", "-n prod exec"), strict=True)
    ),
    "pssh": f"$ parallel-ssh -i -h hosts {READ}\n"
    + "".join(f"[{n}] 10:15:01 [SUCCESS] {host}\n{listed}\n" for n, (host, listed) in enumerate(BOTH, 1)),
    "salt": f"$ salt '*' cmd.run '{READ}'\n" + "".join(f"{host}:\n    {listed}\n" for host, listed in BOTH),
    "one host in a loop": f"{ON_DB2}[root@db2 ~]# for i in 1 2; do ssh db1 {READ}; sleep 9; done\n"
    + f"{LISTED['db1']}\n" * 2
    + ON_DB2,
}


@pytest.mark.parametrize("form", BY_SSH)
def test_what_ssh_prints_is_of_the_host_that_it_reached(form: str) -> None:
    """And of no other: neither of the one before it nor of the shell's own."""
    found = {
        (reading.group[1], reading.record.value)
        for reading in readings(BY_SSH[form].encode())
        if is_enabled(reading.record)
    }
    assert found == {("db1", "always"), ("db2", "never")}


ADDRESSES = {"db1": "10.0.0.1", "db2": "10.0.0.2"}
OF_ADDRESSES = {
    **{form: text for form, text in ON_MANY.items() if "db[1-2]" not in text},
    **{form: BY_SSH[form] for form in ("one by one", "a line each", "names in a file", "names before", "salt", "pssh")},
    "prompts": "".join(f"[root@{host} ~]# {READ}\n{listed}\n" for host, listed in BOTH),
}


@pytest.mark.parametrize("form", OF_ADDRESSES)
def test_hosts_that_are_named_by_their_addresses(form: str) -> None:
    """Addresses begin alike, and are of different hosts."""
    text = re.sub("db[12]", lambda name: ADDRESSES[name[0]], OF_ADDRESSES[form])
    found = {
        (reading.group[1], reading.record.value) for reading in readings(text.encode()) if is_enabled(reading.record)
    }
    assert found == {("10.0.0.1", "always"), ("10.0.0.2", "never")}


def test_what_ssh_prints_of_nobody_knows_which_host_is_not_read() -> None:
    """Two hosts' tables are not one recording; a Problem says what to do. What a variable names is still one host."""
    table = "procs ---memory---\n r  b   swpd   free\n 1  0      0  20068\n" + LISTED["db1"] + "\n"
    loops = (
        f"for h in db1 db2 db3; do ssh $h {READ}; done",
        f"for h in $(cat hosts); do ssh $h {READ}; done",
        f"cat hosts | xargs -I% ssh % {READ}",
    )
    for loop in loops:
        found = list(readings(f"$ {loop}\n{table}$ {READ}\n{LISTED['db2']}\n".encode()))
        assert [r.record.value for r in found if is_enabled(r.record)] == ["never"]
        assert [r.record.kind for r in found if isinstance(r.record, Problem)] == [ProblemKind.UNREADABLE]
    one = readings(f"$ ssh $HOST {READ}\n{LISTED['db1']}\n".encode())
    assert [r.record.value for r in one if is_enabled(r.record)] == ["always"]


@pytest.mark.parametrize("before", ["hostname", "hostname -s; date", "echo", "date", "echo; date"])
def test_what_stands_above_the_files_of_a_command(before: str) -> None:
    """What other commands print first is no file: each list is of its own."""
    printed = {"hostname": "db7", "hostname -s": "db7", "echo": "", "date": "Fri Nov 20 10:00:00 UTC 2026"}
    above = "".join(f"{printed[one]}\n" for one in before.split("; "))
    text = f"$ {before}; cat {ENABLED[0]} {ENABLED[0].replace('enabled', 'defrag')}\n{above}"
    text += f"{LISTED['db2']}\n{LISTED['db1']}\n"
    (case,) = document(text.encode()).get("cases", [document(text.encode())])
    values = {name: one["value"] for name, one in case["host"]["settings"].items()}
    assert (values["thp.enabled"], values["thp.defrag"]) == ("never", "always")
    assert (case["host"]["name"] == "db7") is before.startswith("hostname")


def test_a_list_of_another_file_is_not_believed() -> None:
    """A list with defer is of defrag, one with inherit of a single size, whatever the name above says."""
    text = f"{ENABLED[0]}:\n[always] madvise never\n{ENABLED[0]}:\nalways defer defer+madvise [madvise] never\n"
    found = values(records(text))
    assert (found["thp.enabled", ()], found["thp.defrag", ()]) == ("always", "madvise")
    loop = f"$ {READ}\n{LISTED['db1']}\n$ for f in x*; do echo $f; cat $f/enabled; done\nx\nalways inherit [never]\n"
    assert [r.record.value for r in readings(loop.encode()) if is_enabled(r.record)] == ["always"]


def test_the_shells_own_host_is_none_of_those_that_it_reaches() -> None:
    """An unnamed prompt and one remote command: two hosts, and a switch on one is none of the other."""
    own, remote = f"$ {READ}\n{LISTED['db1']}\n", f"$ ssh db9 {READ}\n{LISTED['db2']}\n"
    text = f"{own}$ ssh db9 'echo never > {ENABLED[0]}'\n{remote}{own}"
    found = {case["host"]["name"]: case for case in document(text.encode())["cases"]}
    assert {name: case["host"]["settings"]["thp.enabled"]["value"] for name, case in found.items()} == {
        "the host of the shell": "always", "db9": "never",
    }  # fmt: skip
    assert {name for name, case in found.items() if case["timeline"]["actions"]} == {"db9"}


@pytest.mark.parametrize("name", ["sample", "run-", "step"])
def test_headings_that_count_name_no_host(name: str) -> None:
    """What is looked at again and again is of one host."""
    text = "".join(f"=== {name}{n} ===\n$ {READ}\n{listed}\n" for n, listed in enumerate(LISTED.values(), 1))
    assert {r.group[1] for r in readings(text.encode()) if is_enabled(r.record)} == {""}
    alone = f"=== db1 ===\n$ {READ}\n{LISTED['db1']}\n=== memory ===\n$ {READ}\n{LISTED['db2']}\n"
    assert {r.group[1] for r in readings(alone.encode()) if is_enabled(r.record)} == {""}


def test_a_table_with_rulers_names_no_host() -> None:
    """A heading is one word between two rulers of the same length, with output below."""
    text = "Summary of the host\n-----------------------\nall settings are default\n-----------------------\n"
    found = readings(f"{text}# {ENABLED[0]}\n{LISTED['db1']}\n".encode())
    assert [reading.group[1] for reading in found if is_enabled(reading.record)] == [""]


def is_enabled(record: Record) -> bool:
    return isinstance(record, Fact) and record.name == "thp.enabled"


def test_slurp_in_base64() -> None:
    """Ansible's slurp module encodes what it reads."""
    content = base64.b64encode(b"always [madvise] never\n").decode()
    text = "db1 | SUCCESS => {\n" + json.dumps(
        {"changed": False, "content": content, "encoding": "base64", "source": ENABLED[0]}, indent=4
    ).removeprefix("{\n")

    assert values(records(text))["thp.enabled", ()] == "madvise"


@pytest.mark.parametrize("layout", [*BLOCKS.items(), *LINES.items()], ids=lambda layout: layout[0])
def test_cut_and_damaged(layout: tuple[str, Layout]) -> None:
    """Whatever is lost or changed, no reader fails, each line exists, and no setting has a word that nobody wrote."""
    text = layout[1](ONE_LINE if layout[0] in LINES else {**ONE_LINE, **LONGER}).encode()
    rng = random.Random(layout[0])
    for _ in range(12):
        damaged = bytearray(text[: rng.randrange(len(text))])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        found = [reading.record for reading in readings(bytes(damaged))]
        assert not list(faults(found, line_count(bytes(damaged))))
        assert {r.value for r in found if is_enabled(r) and isinstance(r, Fact)} <= {"madvise", "never"}


def test_a_document_without_files_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts have none either: a result of thpdiag in a mail does not cost as much as it has braces."""
    decoded = list[int]()

    def count(texts: Sequence[str]) -> tuple[int, list[JsonFile]]:
        decoded.append(len(texts))
        return files_in_json(texts)

    monkeypatch.setattr(blocks, "files_in_json", count)
    parts = [{"path": f"/proc/{number}/stat", "at": {"line": number}} for number in range(200)]
    document = json.dumps({"cited": parts}, indent=1).replace("\n", "\n> ")
    readings(f"> {document}\n\n{KERNEL}".encode())
    assert len([lines for lines in decoded if lines > 1]) == 1


def test_settings_that_change_together() -> None:
    """Two files that one command shows, later with other values: both are of the state in which the text ends."""
    show = f"$ cat {ENABLED[0]} {ENABLED[0].replace('enabled', 'defrag')}\n"
    text = f"{show}{LISTED['db1']}\n{LISTED['db1']}\n{show}{LISTED['db2']}\n{LISTED['db2']}\n"
    settings = document(text.encode())["host"]["settings"]
    assert {name: settings[name]["value"] for name in ("thp.enabled", "thp.defrag")} == {
        "thp.enabled": "never", "thp.defrag": "never",
    }  # fmt: skip


def test_both_indices_of_one_command() -> None:
    """Rows of the two files have one form: the zones begin anew with the second."""
    folder, row = "/sys/kernel/debug/extfrag", "Node 0, zone {:>8}" + " {:.3f}" * 11 + "\n"
    text = f"# cat {folder}/extfrag_index {folder}/unusable_index\n"
    for first in (-1.0, 0.0):
        text += "".join(row.format(zone, *[first] * 9, *[0.9] * 2) for zone in ("DMA32", "Normal"))
    found = [record.name for record in records(text) if isinstance(record, Fact)]
    assert found == ["memory.extfrag_index"] * 2 + ["memory.unusable_index"] * 2
