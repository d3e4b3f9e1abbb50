"""Operator actions in the commands of a session, ticket or script, and facts about the host in running text.

    # echo never > /sys/kernel/mm/redhat_transparent_hugepage/enabled
    sudo echo never > /sys/kernel/mm/transparent_hugepage/defrag       (the shell opens the file, without root)
    sysctl -w vm.compact_memory=1

Yields setting_written (fields setting, value, path, how), operator_compaction and operator_drop_caches events. `how` is
`prompt` for a command at a prompt, `prose` for one that a text mentions, `sudo-redirect` and `failed` for those
without effect. `for` loops over words and braces are expanded as in the shell; relative names are resolved after `cd`.

Kernel releases, distributions and versions of applications named in running text:

    ... an HPC cluster running CentOS 7.0.1406 with kernel version 3.10.0-229.14.1.el7.x86_64.
    12:C 25 Jul 2024 10:00:00.000 # Redis version=6.2.6, bits=64, commit=00000000, modified=0, pid=12, just started

The version that an application logs or prints (`says` in knowledge/applications.yaml) is a measurement. The other facts
have the provenance `prose`: they are used only if there is no measurement, and only for the host that the same speaker
measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thpdiag.detect.expansion import Step
from thpdiag.detect.layout import REMOTE
from thpdiag.knowledge.applications import version_in_text
from thpdiag.knowledge.workloads import changes_of
from thpdiag.model import Citation, Event, Fact

_NOWHERE = Citation("")
_PATH = r"(?:/sys/kernel/mm/(?:redhat_|\*)?transparent_hugepage/[\w/-]{1,60}|/proc/sys/vm/\w{1,40})"
_PRINTED = (
    r"(?:echo|printf)\s{1,8}(?:-\w{1,3}\s{1,8}){0,2}(?:['\"]?%s(?:\\n)?['\"]?\s{1,8})?"
    r"['\"]?(?P<value>[\w+]{1,40})(?:\\n)?['\"]?"
)
_SUDO = r"\bsudo\s{1,8}(?:-\S{1,20}\s{1,8}){0,4}"
_REDIRECTED = re.compile(rf"(?P<sudo>{_SUDO})?(?:/bin/)?{_PRINTED}\s{{0,8}}>>?\s{{0,8}}['\"]?(?P<paths>{_PATH})")
_TEE = r"tee\s{1,8}(?:-\w{1,3}\s{1,8}){0,2}"
_PIPED = re.compile(rf"{_PRINTED}\s{{0,8}}\|\s{{0,8}}(?:{_SUDO})?{_TEE}(?P<paths>[^|;&<>]{{1,400}})")
_HERE_STRING = re.compile(rf"\b{_TEE}(?P<paths>[^|;&<>]{{1,400}})<<<\s{{0,8}}['\"]?(?P<value>[\w+]{{1,40}})")
_SYSCTL = re.compile(r"\bsysctl\s{1,8}(?:-\w{1,3}\s{1,8}){0,3}(?P<pairs>['\"]?vm\.\w{1,40}\s?=\s?\d[^;|&]{0,200})")
_PAIR = re.compile(r"\bvm\.(?P<name>\w{1,40})\s?=\s?(?P<value>\d{1,20})")
_LOOP = re.compile(
    r"\bfor\s{1,8}(?P<name>\w{1,20})\s{1,8}in\s{1,8}(?P<words>[^;]{1,400});\s{0,8}do\s{1,8}(?P<body>.{1,400}?);?\s{0,8}done\b"
)
_BRACES = re.compile(r"(?P<stem>/[\w/.*-]{0,200})\{(?P<items>[\w,/-]{1,200})\}")
_SEARCH = re.compile(r"(?:sudo\s{1,8})?(?:z?[ef]?grep|rg|history|man|vim?|nano|#)\b|#")
_CD = re.compile(r"(?:^|[;&]\s{0,8})cd(?:\s{1,8}['\"]?(?P<to>[\w./~-]{1,200}))?")
_NAME = re.compile(
    r"(?<=[\s>])(?:(?:khugepaged/)?(?:defrag|pages_to_scan|(?:alloc|scan)_sleep_millisecs|max_ptes_\w{1,10})|enabled|"
    r"shmem_enabled|use_zero_page)(?=[\s;|&]|$)"
)
_REFUSED = re.compile(
    r".{0,200}(?:permission denied|invalid argument|read-only file system|write error|operation not permitted|"
    r"no such file or directory|input/output error|cannot create|a password is required|not in the sudoers|"
    r"command not found|profile '?\S+ doesn't exist|failed to (?:re)?start |job for \S+ failed|can't set immutable|"
    r"authentication failure|incorrect password attempt|no tty present|must have a tty|is not allowed to |"
    r"occurred while redirecting)"
    r"|\S{0,40}sh:(?: line \d{1,9}:)? /(?:sys|proc)/\S{1,200}: [^\W\d]",  # followed by a localised message
    re.IGNORECASE,
)
_PASSWORD_PROMPT = re.compile(r"(?:\[sudo\] )?[\w ]{0,40}(?:for \S{1,60})?:\s*$|Sorry, try again\.\s*$")
_QUOTED = re.compile(r"'[^']{0,2000}'|\"(?:[^\"\\]|\\.){0,2000}\"", re.DOTALL)
_RUNS_QUOTED = re.compile(r"(?:\s-\w{0,6}c|\beval)\s{0,8}$")
_PRINTS_QUOTED = re.compile(r"\b(?:echo|printf|sed|alias)\b[^;|&]{0,400}$")
_REMOTE_RUN = re.compile(
    rf"(?:{REMOTE.pattern}|\b(?:ssh|rsh|plink|kubectl|oc|lxc|vagrant|multipass|virtctl|juju|gcloud|ansible|salt)\b)"
    r"[^;|&]{0,400}$"
)
_SHELL_WRAPPED = re.compile(rf"{_SUDO}(?:ba|da|k)?sh\s{{1,8}}-c\b")


def is_refused(answer: Iterable[str]) -> bool:
    """Whether the output of a command, after a possible password prompt, reports that it had no effect."""
    return bool(_REFUSED.match(next((text for text in answer if not _PASSWORD_PROMPT.match(text)), "")))


def printed_name(command: str, answer: str) -> str:
    """Return the name that `hostname` prints as the first of several commands; otherwise empty."""
    hostname = re.match(r"hostname(?: -[sf])?\s{0,8}[;&]", command)
    return answer.strip() if hostname and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,252}", answer.strip()) else ""


def folder_after(folder: str, command: str) -> str:
    """Return the working directory after the `cd` in a command, empty if it is unknown."""
    for change in _CD.finditer(command):
        to = change["to"] or ""
        folder = to.rstrip("/") if to.startswith("/") else (f"{folder}/{to}".rstrip("/") if folder and to else "")
    return folder


def with_absolute_settings(command: str, folder: str) -> str:
    """Return the command with relative names of settings replaced by absolute ones."""
    if "transparent_hugepage" not in folder:
        return command
    return _NAME.sub(lambda name: f"{folder}/{name[0]}", command)


def operator_actions(cite: Citation, command: str, *, how: str) -> Iterator[Event]:
    """Yield the operator events of one command line. `how`: prompt, root (a prompt of root), prose or failed."""
    if ("transparent_hugepage" not in command and "vm" not in command) or _SEARCH.match(command.strip()):
        return
    text = _BRACES.sub(lambda b: " ".join(b["stem"] + item for item in b["items"].split(",")), command)
    text = _LOOP.sub(_unroll_loop, text)
    strings = [string.span() for string in _QUOTED.finditer(text)]
    for pattern in (_REDIRECTED, _PIPED, _HERE_STRING):
        for write in pattern.finditer(text):
            before = next((text[:begin] for begin, end in strings if begin < write.start() < end), None)
            if before is not None and not _is_string_executed(before, how):
                continue
            for path in re.findall(rf"(?<![\w/.*-]){_PATH}", write["paths"]):
                yield _event(cite, path, write["value"], _effective_how(write, text, how))
    for settings in _SYSCTL.finditer(text):
        for pair in _PAIR.finditer(settings["pairs"]):
            yield _event(cite, f"/proc/sys/vm/{pair['name']}", pair["value"], _effective_how(pair, text, how))


def operator_changes(cite: Citation, command: str) -> Iterator[Event]:
    """Yield other changes of a command that affect the speed of a host (knowledge/workloads.yaml)."""
    for change, subject in changes_of(command) if not _SEARCH.match(command.strip()) else ():
        yield Event("operator_change", cite, fields={"what": change, "of": subject})


def _unroll_loop(loop: re.Match[str]) -> str:
    name = re.compile(rf"\$(?:{loop['name']}\b|\{{{loop['name']}\}})")
    return "; ".join(name.sub(word.replace("\\", "\\\\"), loop["body"]) for word in loop["words"].split())


def _is_string_executed(before: str, how: str) -> bool:
    """Whether the shell of this host executes a quoted string after the text `before`, rather than printing it.

    In prose, quotation marks enclose commands.
    """
    if how == "prose":
        return _PRINTS_QUOTED.search(before) is None
    return _RUNS_QUOTED.search(before) is not None and _REMOTE_RUN.search(before) is None


def _effective_how(write: re.Match[str], text: str, how: str) -> str:
    if write.groupdict().get("sudo") and how in ("prompt", "prose") and not _SHELL_WRAPPED.search(text):
        return "sudo-redirect"
    return "prompt" if how == "root" else how


def _event(cite: Citation, path: str, value: str, how: str) -> Event:
    kinds = {"sysctl.vm.compact_memory": "operator_compaction", "sysctl.vm.drop_caches": "operator_drop_caches"}
    if path.startswith("/proc/"):
        setting = f"sysctl.vm.{path.rsplit('/', 1)[1]}"
    else:
        setting = "thp." + path.partition("transparent_hugepage/")[2].strip("/").replace("/", ".")
    fields = {"setting": setting, "value": value, "path": path, "how": how}
    return Event(kinds.get(setting, "setting_written"), cite, fields=fields)


_HINT = re.compile(r"(?i)kernel|linux|centos|rhel|red hat|ubuntu|debian|sles|suse|uptime|\.el\d|\d-generic")
_RELEASE = re.compile(r"(?<![\w.-])[2-7]\.\d{1,2}\.(?:\d{1,3}|x)(?:\.\d{1,3})?(?:-[\w.+~-]{1,60})?(?![\w-])")
_KERNEL_WORD = re.compile(r"(?i)kernels?\b")
_MAX_DISTANCE = 60  # characters between the word "kernel" and its release; beyond that it is another version
_DISTRIBUTION_RELEASE = re.compile(  # distinct from any other version without the word "kernel"
    r"(?<![\w.-])(?:(?:2\.6\.(?:18|32)|3\.10\.0|4\.18\.0|5\.14\.0|6\.12\.0)-\d[\w.]{0,30}\.el\d{1,2}[\w.]{0,20}"
    r"|[2-7]\.\d{1,2}\.\d{1,3}-\d[\w.]{0,30}\.el\d{1,2}uek(?:\.\w{1,10})?"
    r"|[3-7]\.\d{1,2}\.\d{1,3}-\d{1,4}-(?:generic|aws|azure|gcp|oracle|lowlatency))(?![\w-])"
)
_OS = re.compile(
    r"(?i)\b(?P<name>CentOS(?: Linux| release)*|Red Hat Enterprise Linux(?: Server)?(?: release)?|RHEL|Oracle Linux"
    r"|Ubuntu|Debian(?: GNU/Linux)?|SLES|SUSE Linux Enterprise Server|Rocky Linux|AlmaLinux|Fedora)"
    r"(?: \((?:RHEL)\))?\s+"
    r"(?P<version>\d{1,2}(?:\.\d{1,4}){0,2}(?:\s?SP\d)?)(?!-?\d|[.]\d)"
)
_OS_NAMES = {
    name.casefold(): name
    for name in ("AlmaLinux", "CentOS", "Debian", "Fedora", "Oracle Linux", "RHEL", "Rocky Linux", "SLES", "Ubuntu")
}
_OTHER_OS = re.compile(r"(?i)\b(?:from|unlike|than|instead of|previously|formerly|used to run|old)\s+$")
_UPTIME = re.compile(r"\b(?P<days>\d{1,4}) days?(?:'| of)? uptime|\buptime (?:of|is|was) (?P<days2>\d{1,4}) days?")
_VERSION = re.compile(r"ersion|Starting|erver v=|-MariaDB")  # most lines have none of these
_MAX_VERSION_CHARS = 2000  # characters of a line that are searched for a version


def _kernel_release(text: str) -> str:
    """Return the release closest to the word "kernel", preferably after it, or the only one named as distributions do.

    The line may have other versions.
    """
    words = [(word.start(), word.end()) for word in _KERNEL_WORD.finditer(text)]
    distances = [
        (release.start() - end if release.start() >= end else 10 + begin - release.end(), release[0])
        for release in _RELEASE.finditer(text)
        for begin, end in words
    ]
    distance, nearest = min(distances, default=(_MAX_DISTANCE, ""))
    if distance < _MAX_DISTANCE:
        return nearest.rstrip(".-")
    named = {release[0].rstrip(".") for release in _DISTRIBUTION_RELEASE.finditer(text)}
    return named.pop() if len(named) == 1 else ""


def _operating_system(text: str) -> str:
    """Return the distribution that a line names as that of the host; empty if it names several.

    A host that moved "from CentOS 7 to Ubuntu 22.04" runs the latter.
    """
    systems = {
        f"{_OS_NAMES.get(found['name'].casefold(), found['name'])} {found['version']}"
        for found in _OS.finditer(text)
        if not _OTHER_OS.search(text, max(0, found.start() - 20), found.start())
    }
    return systems.pop() if len(systems) == 1 else ""


def prose_facts(cite: Citation, text: str) -> Iterator[Fact]:
    """Yield the facts about the host that a line of prose states."""
    if _VERSION.search(text):
        for app, version in version_in_text(text[:_MAX_VERSION_CHARS]):
            yield Fact("app.version", version, cite, (("app", app.name),))
    if not _HINT.search(text):
        return
    if release := _kernel_release(text):
        yield Fact("kernel.release", release, cite, provenance="prose")
    if system := _operating_system(text):
        yield Fact("os.name", system, cite, provenance="prose")
    if uptime := _UPTIME.search(text):
        yield Fact("uptime.seconds", int(uptime["days"] or uptime["days2"]) * 86400, cite, provenance="prose")


def switches_setting(step: Step) -> bool:
    """Whether a step writes a setting."""
    return any(event.kind == "setting_written" for event in operator_actions(_NOWHERE, step.text, how="prompt"))


def changes_host(step: Step) -> bool:
    """Whether a step changes anything on the host."""
    actions = operator_actions(_NOWHERE, step.text, how="prompt")
    return any(True for _ in (*actions, *operator_changes(_NOWHERE, step.text)))
