"""Text: a word that no list knows becomes a pseudonym; numbers, times and what the lists know stay.

Addresses, mail, `user@host` and paths are told from words by their form. In a quoted line everything behind the first
option (`-p`, `--password`) are arguments of a program, of which numbers go too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

from thpdiag.redact import private
from thpdiag.redact.allowed import (
    ATOM,
    DEVICE,
    EDGE,
    NUMBER,
    OF_KERNEL,
    extensions,
    is_function,
    is_program,
    modules,
    quoted,
    told,
    told_paths,
)
from thpdiag.redact.names import HOST_OF_SOS, OF_SOS, OWN, Names
from thpdiag.redact.paths import names_of, of_ours, path, segment
from thpdiag.redact.releases import is_release, without_additions

_MAC = r"(?<![\w:])(?:[0-9A-Fa-f]{2}[:-]){5}(?:[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){2})?[0-9A-Fa-f]{2}(?![\w:])"
_SIX = r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:])"
# Not 2.6.32.59-0.7, a kernel of SLES 11
_FOUR = r"(?<![\w.])(?!2\.6\.\d\d\.\d{1,3}-)\d{1,3}(?:\.\d{1,3}){3}(?![\w])(?!\.\d)"
_PATH = r"[\w.@+%~\u0300-\u036f\u200b-\u200f-]*(?:/+[\w.@+%~\u0300-\u036f\u200b-\u200f-]+)+/?"
_ANY = re.compile(f"(?P<mac>{_MAC})|(?P<six>{_SIX})|(?P<four>{_FOUR})|(?P<path>{_PATH})|(?P<atom>{ATOM})")
# Where our sentences name something: `grew of NAME (123)`, `a < b < NAME`, `'NAME'`
_NAMED = re.compile(
    r"(?P<pid>(?<![^\s(])[^\s()]{1,64})(?= \(\d{1,9}\))|(?<=< )(?P<frame>[^<,;]+?)(?=$| <|[,;])"
    r"|(?<=samples of )(?P<task>[^()]{1,64}?)(?= are in )"
    r"|(?<=\bname is )(?P<is>[^\s,;]{1,64})|(?<=\(comm )(?P<comm>[^,;)]{1,64})|(?<=, victim )(?P<victim>[^,;)]{1,64})"
)
_COMPILED = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm)(?:\.\d+)?|\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)+$")
_LINE_OF = re.compile(r"(:\d+)$")


class Words:
    """Replaces names in text."""

    def __init__(self, names: Names, functions: Iterable[str] = (), redacted: str = "") -> None:
        """`functions` are the kernel's, with its settings; `redacted` says that pseudonyms in the text are ours."""
        self.names = names
        self._functions = frozenset(functions)
        self._redacted = bool(redacted)
        self._phrases: dict[str, str] = {}  # names of programs that are more than a word, and their pseudonyms
        self._atoms: dict[tuple[str, bool], str] = {}

    def line(self, text: str) -> str:
        """A line of the customer's."""
        text = self._without_phrases(text)
        if frame := _FRAME.fullmatch(text):
            return self._frame(frame)
        if _FOLDED.fullmatch(text):
            return self.stack(text)
        return self._replaced_in(text, ours=False)

    def _replaced_in(self, text: str, *, ours: bool) -> str:
        """Numbers go among arguments, behind the host of an address of the web, and behind a strange name."""
        begin_of_arguments = len(text) if ours else private.arguments(text)
        webs = private.webs(text)
        secret = [] if ours else [*private.labelled(text), *private.people(text)]

        def replaced(match: re.Match[str]) -> str:
            at = match.start()
            if not ours and _in_a_row(text, match):
                return match[0]
            if match["atom"] and any(begin <= at < end for begin, end in secret):
                return self._secret(match[0])
            label = private.label(text, at)
            value = label is not None and not self._stays(label.strip(EDGE), ours=ours)
            inside = value or at >= begin_of_arguments or any(begin < at < end for begin, end in webs)
            return self._replaced(match, ours=ours, argument=inside)

        return _ANY.sub(replaced, text)

    def sentence(self, text: str) -> str:
        """A sentence of ours that names things of the customer."""
        text = self._without_phrases(text)
        done, end = [], 0
        for match in _NAMED.finditer(text):
            done += [self.command(text[end : match.start()]), self._named(match)]
            end = match.end()
        return "".join([*done, self.command(text[end:])])

    def program(self, name: str) -> str:
        """The name of a process or thread."""
        bare = name.strip("[]<>")
        if bare in ("", "?") or is_program(bare) or self.own(bare):
            return name
        done = names_of(name, "proc", self.names)
        if not _ATOMS.fullmatch(name) and re.search(r"[^\W\d]", name):
            self._phrases[name] = done
        return done

    def _without_phrases(self, text: str) -> str:
        for name, pseudonym in self._phrases.items():
            if name in text:
                text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", pseudonym, text)
        return text

    def function(self, name: str) -> str:
        """The name of a function that is not known to be the kernel's by where it stands."""
        if name.startswith("[") and name.endswith("]"):
            return f"[{self.module(name[1:-1])}]"
        if (
            self.kernel_function(name)
            or (name.endswith("_[k]") and of_kernel(name[:-4]))
            or self.own(name)
            or is_function(name)
        ):
            return name
        return names_of(name, "fn", self.names)

    def module(self, name: str) -> str:
        """A kernel module, or the file of a function without a name."""
        return name if name.casefold() in modules() else segment(name, self.names, "file")

    def stack(self, text: str) -> str:
        """A task and its functions from the root, joined by `;`."""
        text, weight = (text[: found.start()], found[0]) if (found := _WEIGHT.search(text)) else (text, "")
        task, *functions = text.split(";")
        return ";".join([self.program(task), *map(self.function, functions)]) + weight

    def kernel_function(self, name: str) -> bool:
        """Whether it is a function of the kernel; programs loaded into it (BPF) are named by the customer."""
        bare = _COMPILED.sub("", name)
        known = {name, bare} & self._functions or ("_" in bare and bare.casefold() in quoted())
        return bool(known) and not name.startswith("bpf_prog_")

    def release(self, text: str) -> str:
        """A kernel release without what somebody of the customer has added to it."""
        if is_release(text):
            return without_additions(text)
        return text if NUMBER.fullmatch(text) or re.fullmatch(r"[\d.]+", text) else self.line(text)

    def place(self, text: str) -> str:
        """A member, with or without the line in it."""
        number = _LINE_OF.search(text)
        bare = text[: number.start()] if number else text
        return path(bare, self.names) + (number[1] if number else "")

    def command(self, text: str) -> str:
        """A command of ours, or words of ours that name nothing by where they stand."""
        return self._replaced_in(text, ours=True)

    def _secret(self, text: str) -> str:
        """What is the customer's for where it stands, even if a list knows it."""
        core = text.rstrip(EDGE)
        return (core if self.own(core) or not core else self._there(core)) + text[len(core) :]

    def _there(self, word: str) -> str:
        """A pseudonym for where a word stands; what is common may stay elsewhere."""
        return names_of(word, "arg" if self._stays(word) else "word", self.names)

    def _named(self, match: re.Match[str]) -> str:
        if not match["frame"]:
            return self.program(match[0])
        name = match["frame"].strip()
        if name == "..." or self.kernel_function(name) or is_function(name) or is_program(name) or self.own(name):
            return match[0]
        return self.names.known(name, "fn") or self.names.known(name) or names_of(name, "fn", self.names)

    def _replaced(self, match: re.Match[str], *, ours: bool, argument: bool) -> str:
        text = match[0]
        if match["mac"]:
            one = text if self.names.known(text) else text.replace("-", ":").casefold()
            return names_of(one, "mac", self.names)
        if match["six"]:
            return self._six(text)
        if match["four"]:
            return self._four(text)
        if match["path"]:
            return self._path(text, ours=ours)
        core = text.rstrip(EDGE)
        return self._atom(core, ours=ours, argument=argument) + text[len(core) :]

    def _six(self, text: str) -> str:
        bare = text if text.endswith("::") else text.removesuffix(":")
        try:
            address = IPv6Address(bare)
        except ValueError:
            return text if not re.search("[A-Fa-f]", text) else _ATOMS.sub(self._plain, text)
        if address.is_loopback or address.is_unspecified:
            return text
        one = bare if self.names.known(bare) else str(address)  # one address, however it is spelled
        return names_of(one, "ipv6_", self.names) + text[len(bare) :]

    def _plain(self, match: re.Match[str]) -> str:
        return self._atom(match[0], ours=False, argument=False)

    def _four(self, text: str) -> str:
        try:
            address = ip_address(text)
        except ValueError:
            padded = all(part.isascii() and int(part) < 256 for part in text.split("."))  # 010.001.002.003
            return names_of(text, "ip", self.names) if padded else text  # a version or a number of a table
        return text if address.is_loopback or address.is_unspecified else names_of(text, "ip", self.names)

    def _path(self, text: str, *, ours: bool) -> str:
        if all(self._stays(one, ours=ours) for one in text.split("/")) and not text.startswith("/"):
            return text  # `194.2/s`, `and/or`
        core = text.rstrip(EDGE) if not text.endswith("~") else text
        if "@" in core.partition("/")[0]:
            first, sign, rest = core.partition("/")
            return self._atom(first, ours=ours, argument=False) + sign + path(rest, self.names) + text[len(core) :]
        return path(core, self.names, told_paths() if ours else frozenset()) + text[len(core) :]

    def _atom(self, word: str, *, ours: bool, argument: bool) -> str:
        key = (word, ours)
        if argument and re.search(r"\d", word) and not self.own(word):
            return self._there(word)
        if key not in self._atoms:
            self._atoms[key] = self._judged(word, ours=ours)
        return self._atoms[key]

    def _judged(self, word: str, *, ours: bool) -> str:
        secret = self.names.secret(word) if ours else self.names.known(word)
        if secret is not None and not (ours and word.casefold() in told()):
            return secret
        if self._stays(word, ours=ours):
            return word
        if "@" in word.strip("@"):
            return self._at(word)
        if is_release(word):
            return without_additions(word)
        return self._host(word) or self._file(word) or self.names.known(word) or names_of(word, "word", self.names)

    def _stays(self, word: str, *, ours: bool = False) -> bool:
        folded = word.casefold()
        if folded in quoted() or (ours and (folded in told() or of_ours(word))) or not word or self.own(word):
            return True
        if folded.startswith(("vm.", "kernel.")) and folded.partition(".")[2] in quoted():  # as sysctl spells them
            return True
        if NUMBER.fullmatch(word) or DEVICE.fullmatch(word) or OF_KERNEL.fullmatch(word):
            return True
        return is_program(word) or self.kernel_function(word)

    def own(self, word: str) -> bool:
        """Whether it is a pseudonym already, ours or of `sos clean`."""
        if HOST_OF_SOS.fullmatch(word):
            return True
        if OF_SOS.match(word) or self.names.given(word):
            return all(OF_SOS.fullmatch(p) or self.names.given(p) or p in extensions() for p in word.split("."))
        parts = word.split(".")
        return self._redacted and OWN.fullmatch(parts[0]) is not None and all(
            OWN.fullmatch(p) or p in extensions() for p in parts
        )  # fmt: skip

    def _at(self, word: str) -> str:
        """`user@host` of a prompt, or mail."""
        user, _, host = word.partition("@")
        if host.rpartition(".")[2] in _UNITS and "." in host:
            return segment(word, self.names, "file")
        if not self.own(host) and self.names.secret(host) is None and "." in host and not self._host(host):
            return names_of(word, "mail", self.names)
        person = user if is_program(user) or self.own(user) or not user else names_of(user, "user", self.names)
        if _NO_HOST.fullmatch(host):
            return f"{person}@{host}"
        place = self._host(host) or (host if self.own(host) else names_of(host, "host", self.names))
        return f"{person}@{place}"

    def _host(self, word: str) -> str | None:
        """A known host with its domain."""
        first, _, domain = word.partition(".")
        host, place = self.names.secret(first), self.names.secret(domain)
        file = place is None and domain.rpartition(".")[2].casefold() in extensions()  # `host.txt`
        if not domain or file or not (host or place):
            return self.names.secret(word)
        host = host or names_of(first, "host", self.names)
        return f"{host}.{place or names_of(domain, 'domain', self.names)}"

    def _file(self, word: str) -> str | None:
        ending = word.rpartition(".")[2]
        return segment(word, self.names, "file") if "." in word and ending.casefold() in extensions() else None

    def _frame(self, frame: re.Match[str]) -> str:
        """A line of a stack of perf script."""
        within = frame["object"]
        bracketed = within.startswith("[")
        kernel = bracketed and _OF_KERNEL.fullmatch(within) is not None
        name = frame["name"]
        shown = name if bracketed and _in_kernel(within) and of_kernel(name) else self.function(name)
        place = within if kernel else self._object(within)
        return f"{frame['begin']}{shown}{frame['offset'] or ''} ({place}){frame['end']}"

    def _object(self, within: str) -> str:
        if within.startswith("["):
            return f"[{self.module(within[1:-1])}]" if within.endswith("]") else self.line(within)
        return " ".join(path(part, self.names) if "/" in part else self.line(part) for part in within.split(" "))


_ROW = re.compile(r"(?P<object>\S*)\s*\[k\] $")  # a row of perf report or perf top in front of the function
_BEFORE_MARK = re.compile(r"\]\s+\[k\] ")
_UNITS = frozenset({"service", "slice", "scope", "socket", "mount", "timer"})  # `user@1000.service`
_NO_HOST = re.compile(r"(?:pts|tty\w{0,5}|notty|localhost|host)")  # `sshd: anna@pts/0`, `builder@host`
_OF_KERNEL = re.compile(
    r"\[?(?:(?:guest\.)?kernel(?:\.(?:kallsyms|vmlinux))?(?:\.\d+)?|vmlinux|unknown|vdso|vsyscall)\]?(?:\.init\.text)?"
)
_OF_C = re.compile(r"[\w.$]+")
_WEIGHT = re.compile(r" \d{1,20}$")
_FOLDED = re.compile(r"[^;]{1,64}(?:;[^;]+){2,}")
_ATOMS = re.compile(ATOM)
_FRAME = re.compile(
    r"(?P<begin>\s*[0-9a-f]{2,16} )(?P<name>.+?)(?P<offset>\+0x[0-9a-f]+)?"
    r" \((?P<object>[^()]*(?:\(deleted\))?)\)(?P<end>\s*)"
)


def _in_kernel(place: str) -> bool:
    """Whether what perf says is in the kernel is in no module of the customer's; a column of numbers is no module."""
    module = place.rpartition("/")[2].partition(".ko")[0].strip("[]").casefold()
    return not (place.startswith("[") or ".ko" in place) or bool(_OF_KERNEL.fullmatch(place)) or module in modules()


def _in_a_row(text: str, match: re.Match[str]) -> bool:
    """Whether a row of perf report or perf top says that it is the kernel's, or a module of it that any host has."""
    row = _ROW.search(text[: match.start()])
    if row:
        return _in_kernel(row["object"]) and of_kernel(match[0])
    return match[0].casefold() in modules() and _BEFORE_MARK.match(text, match.end()) is not None


def of_kernel(name: str) -> bool:
    """Whether what a source calls a function of the kernel can be one; BPF programs are named by the customer."""
    return _OF_C.fullmatch(name) is not None and not name.startswith("bpf_prog_")
