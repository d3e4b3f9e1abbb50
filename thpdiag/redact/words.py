"""Text: a word that no list knows becomes a pseudonym; numbers, times and what the lists know stay.

Addresses, mail, `user@host` and paths are told from words by their form. In a quoted line everything behind the first
option (`-p`, `--password`) are arguments of a program, of which numbers go too.

Where in a quoted line values stand that are the customer's whatever they look like: arguments, passwords, numbers of
accounts.

Paths: what every host and every collector has stays, the customer's own folders and files get pseudonyms.

The extension stays, so that it can be seen what a file was; `/home/anna` becomes `/home/user1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address

from thpdiag.model.text import token_pattern
from thpdiag.redact.allowed import (
    ATOM,
    DEVICE,
    EDGE,
    NUMBER,
    OF_KERNEL,
    extensions,
    is_function,
    is_of_distribution,
    is_program,
    is_release,
    modules,
    of_paths,
    public_words,
    without_additions,
)
from thpdiag.redact.names import HOST_OF_SOS, OF_SOS, OWN, Names

# But not what `ls -l` begins a line with
_OPTION = re.compile(r"(?:^|(?<=\s))-{1,2}(?![rwxsStT-]{9}[\s.+])[A-Za-z]")
# A program with its path, which the prompt's folder and a file of the kernel are not
_PROGRAM = re.compile(r"(?:^|(?<=[\s|(]))/(?!(?:proc|sys|dev|run)/)[\w.@+%~-]+/[^\s\]#$>,;:()]+(?=\s)")
# In any part of a name; and those that are common parts of others (`nr_foll_pin_acquired`) alone
_LABELS = (
    r"[\w-]*(?:passw(?:or)?d|passphrase|passcode)[\w-]*"
    r"|[\w-]*(?:secret|credential|api_?key|access_?key|token)[\w-]*(?=[\"']?\s?[:=])|--[\w-]*(?:secret|token|key)[\w-]*"
)
_ALONE = r"(?:pass|pwd|pw|pin|bearer|basic|iban|phone|tel|fax)"
_WITH_NUMBER = (  # `license key 1234567`; with fewer digits it may be a count
    r"(?:licen[cs]e|serial|account|activation|customer|contract|ticket)(?:\s(?:number|no\.?|nr\.?|key|id|code))?"
    r"(?=[\s#]{1,3}\d{5})"
)
_WITH_SIGN = r"(?:key|account|acct|card|mobile|serial|sn|ssn|login|license)(?=[\"']?\s?[:=])"
_LABELLED = re.compile(
    rf"(?<![\w-])-{{0,2}}(?:{_LABELS}|{_ALONE}|{_WITH_SIGN}|{_WITH_NUMBER})(?![\w-])[\"']?\s{{0,3}}[:=#]?\s{{0,3}}[\"']?"
    r"([A-Z]{2}\d\d(?: [\dA-Z]{4}){2,7}(?: \d{1,4})?|\+?\d[\d ./-]*\d(?![\w])|[^\s\"',;]+)",
    re.IGNORECASE,
)
_PHONE = re.compile(r"(?<![\w.])\+\d{1,3}[ -]?\(\d{1,5}\)[\d ./-]{4,}\d(?!\w)")
_WEB = re.compile(r"[A-Za-z]\w*://[^\s\"'<>]+")
# `comm:4711` is a pid, and `Comm: 1.5` nobody's number
_NAMED = re.compile(r"(?<![\w.@%-])([\w.@%-]*[^\W\d][\w.@%-]*)[\"']?(?:=[\"']?|(:)(?:\s{1,3}[\"']?|[\"']))[+-]?$")
_LONG = re.compile(r"\d{4,}(?![\d.:])")
_NEAR = 80
# `jan` is a man too, and `sun` a host: a month has a day beside it, a day of the week a month
_CALENDAR = re.compile(
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?= {1,2}[0-3]?\d(?:[ ,]|$))"
    r"|(?<=\d[ /-])(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?=[ /-]\d{2,4}\b)"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?=,? {1,2}(?:\d|[A-Z][a-z]{2} ))"
)
_PEOPLE = frozenset({"jan", "jun", "mar", "sun", "sat", "dec"})

Span = tuple[int, int]


def arguments(text: str) -> int:
    """Where the arguments of a program begin; the end of the line if none do."""
    option, program = _OPTION.search(text), _PROGRAM.search(text)
    return min(option.start() if option else len(text), program.end() if program else len(text))


def label(text: str, at: int) -> str | None:
    """The word of which what stands there is the value: `NAME=4711`, `"name": "4711"`."""
    found = _NAMED.search(text[max(0, at - _NEAR) : at])
    return None if found is None or (found[2] and not _LONG.match(text, at)) else found[1]


def people(text: str) -> Iterator[Span]:
    """Words of the calendar that are names where no date is."""
    dated = {found.start() for found in _CALENDAR.finditer(text)}
    for found in re.finditer(r"(?<!\w)[A-Za-z]+(?!\w)", text):
        if found[0].casefold() in _PEOPLE and found.start() not in dated:
            yield found.span()


_HOMES = frozenset({"home", "users", "user_homes"})
_ENDS = re.compile(r"((?:\.[A-Za-z]\w{0,8}|\.\d{1,4})+)$")
_ADDRESS = re.compile(r"\d{1,3}(?:[._-]\d{1,3}){3}")
_DAY_FILE = re.compile(r"sar?\d\d")
_PATHS_LONG = re.compile(r"(?!20\d{6}$)\d{5,}")
_PARTS = re.compile(r"[\W_]+")


def path(text: str, names: Names) -> str:
    """The path with its own segments replaced."""
    segments = text.split("/")
    done: list[str] = []
    for number, one in enumerate(segments):
        before = segments[number - 1].casefold() if number else ""
        kind = "dir" if number < len(segments) - 1 else "file"
        if before in _HOMES and one:
            done.append(names_of(one, "user", names))
        elif _PATHS_LONG.fullmatch(one) and done != segments[:number]:  # of an order, in a folder of the customer's
            done.append(names_of(one, kind, names))
        else:
            done.append(segment(one, names, kind))
    return "/".join(done)


def names_of(one: str, kind: str, names: Names) -> str:
    """A pseudonym, unless it is one."""
    return one if names.is_pseudonym(one) else names.pseudonym(kind, one)


def segment(one: str, names: Names, kind: str) -> str:
    """One segment of a path."""
    if (secret := names.secret(one)) is not None:
        return secret
    if _ADDRESS.fullmatch(one):
        return names_of(one, "ip", names)
    if not one or stays(one, names):
        return one
    stem, extension = _split_extension(one)
    if extension and stem and (names.secret(stem) or not stays(stem, names)):
        return f"{names_of(stem, kind, names)}{extension}"
    return names_of(one, kind, names)


def stays(one: str, names: Names) -> bool:
    """Whether a segment is none of the customer's."""
    bare = one.strip(".~-+")
    if not bare or names.is_pseudonym(bare) or NUMBER.fullmatch(bare) or DEVICE.fullmatch(bare):
        return True
    if bare.casefold() in public_words() or bare.casefold() in of_paths():
        return True
    stem, extension = _split_extension(bare)
    if (extension and names.is_pseudonym(stem)) or is_of_distribution(bare):
        return True
    return (
        is_program(bare)
        or OF_KERNEL.fullmatch(bare) is not None
        or all(map(_is_known_part, _PARTS.split(bare.casefold())))
    )


def _is_known_part(part: str) -> bool:
    return part in of_paths() or part.isdigit() or not part or _DAY_FILE.fullmatch(part) is not None


def _split_extension(one: str) -> tuple[str, str]:
    """Stem and known extensions: `acme.tar.gz` is `acme` and `.tar.gz`."""
    found = _ENDS.search(one)
    if not found:
        return one, ""
    ends = found.group().lstrip(".").split(".")
    kept: list[str] = []
    while ends and (ends[-1].casefold() in extensions() or ends[-1].isdigit()):
        kept.insert(0, ends.pop())
    extension = "".join(f".{end}" for end in kept)
    return one.removesuffix(extension) if extension else one, extension


_MAC = r"(?<![\w:])(?:[0-9A-Fa-f]{2}[:-]){5}(?:[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){2})?[0-9A-Fa-f]{2}(?![\w:])"
_SIX = r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:])"
# Not 2.6.32.59-0.7, a kernel of SLES 11
_FOUR = r"(?<![\w.])(?!2\.6\.\d\d\.\d{1,3}-)\d{1,3}(?:\.\d{1,3}){3}(?![\w])(?!\.\d)"
_PATH = r"[\w.@+%~\u0300-\u036f\u200b-\u200f-]*(?:/+[\w.@+%~\u0300-\u036f\u200b-\u200f-]+)+/?"
_ANY = re.compile(f"(?P<mac>{_MAC})|(?P<six>{_SIX})|(?P<four>{_FOUR})|(?P<path>{_PATH})|(?P<atom>{ATOM})")
_COMPILED = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm)(?:\.\d+)?|\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)+$")
_LINE_OF = re.compile(r"(:\d+)$")


class Words:
    """Replaces names in text."""

    def __init__(
        self, names: Names, functions: Iterable[str] = (), *, redacted: bool = False, named: bool = True
    ) -> None:
        """`functions` are the kernel's, with its settings; `redacted` says that pseudonyms in the text are ours,
        `named` that the names in our sentences are known."""
        self.names = names
        self._functions = frozenset(functions)
        self._redacted = redacted
        self._named = named
        self._phrases: dict[str, str] = {}  # names of programs that are more than a word, and their pseudonyms
        self._atoms: dict[str, str] = {}

    def line(self, text: str) -> str:
        """A line of the customer's."""
        text = self._without_phrases(text)
        if frame := _FRAME.fullmatch(text):
            return self._frame(frame)
        if _FOLDED.fullmatch(text):
            return self.stack(text)
        return self._replaced_in(text)

    def _replaced_in(self, text: str) -> str:
        """Numbers go among arguments, behind the host of an address of the web, and behind a strange name."""
        begin_of_arguments = arguments(text)
        web_spans = [found.span() for found in _WEB.finditer(text)]
        secret = [found.span() for found in _PHONE.finditer(text)]
        secret += [*(found.span(1) for found in _LABELLED.finditer(text)), *people(text)]

        def replacement(match: re.Match[str]) -> str:
            at = match.start()
            if _in_a_row(text, match):
                return match[0]
            if match["atom"] and any(begin <= at < end for begin, end in secret):
                return self._secret(match[0])
            named = label(text, at)
            value = named is not None and not self._stays(named.strip(EDGE))
            inside = value or at >= begin_of_arguments or any(begin < at < end for begin, end in web_spans)
            return self._replace_match(match, argument=inside)

        return _ANY.sub(replacement, text)

    def sentence(self, text: str, inside: Mapping[str, str] | None = None) -> str:
        """A sentence or command of ours, in which pseudonyms stand for the names that it is known to hold.

        In the rest a host, a person or an address is replaced all the same, if the name is no common word.
        """
        if not self._named:
            return self.line(text)
        done, end = [], 0
        for match in token_pattern(inside or ()).finditer(text):
            done += [_ATOMS.sub(self._known_secret, text[end : match.start()]), (inside or {})[match[0]]]
            end = match.end()
        return "".join([*done, _ATOMS.sub(self._known_secret, text[end:])])

    def _known_secret(self, match: re.Match[str]) -> str:
        core = match[0].rstrip(EDGE)
        if core.casefold() in public_words() or self.is_pseudonym(core):
            return match[0]
        return (self._host(core) or core) + match[0][len(core) :]

    def program(self, name: str) -> str:
        """The name of a process or thread."""
        bare = name.strip("[]<>")
        if bare in ("", "?") or is_program(bare) or self.is_pseudonym(bare):
            return name
        done = names_of(name, "proc", self.names)
        if not _ATOMS.fullmatch(name) and re.search(r"[^\W\d]", name):
            self._phrases[name] = done
        return done

    def host(self, name: str) -> str:
        """The name of a host; `db1.example.com` is one in a domain."""
        if name in _NOBODY or self.is_pseudonym(name):
            return name
        if (secret := self.names.secret(name)) is not None:
            return secret
        first, _, domain = name.partition(".")
        if not domain or not re.fullmatch(r"[\w-]+(\.[\w-]+)+", name):
            return self.names.pseudonym("host", name)
        return f"{self.names.pseudonym('host', first)}.{self.names.pseudonym('domain', domain)}"

    def entity(self, text: str) -> str:
        """A process with its pid, a zone, a cpu, a control group."""
        found = _PROCESS.match(text)
        return f"{self.program(found[1])}{found[2]}" if found else self.line(text)

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
            or self.is_pseudonym(name)
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
        known = {name, bare} & self._functions or ("_" in bare and bare.casefold() in public_words())
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

    def _secret(self, text: str) -> str:
        """What is the customer's for where it stands, even if a list knows it."""
        core = text.rstrip(EDGE)
        return (core if self.is_pseudonym(core) or not core else self._local_pseudonym(core)) + text[len(core) :]

    def _local_pseudonym(self, word: str) -> str:
        """A pseudonym for where a word stands; what is common may stay elsewhere."""
        return names_of(word, "arg" if self._stays(word) else "word", self.names)

    def _replace_match(self, match: re.Match[str], *, argument: bool) -> str:
        text = match[0]
        if match["mac"]:
            one = text if self.names.find(text) else text.replace("-", ":").casefold()
            return names_of(one, "mac", self.names)
        if match["six"]:
            return self._six(text)
        if match["four"]:
            return self._four(text)
        if match["path"]:
            return self._path(text)
        core = text.rstrip(EDGE)
        return self._atom(core, argument=argument) + text[len(core) :]

    def _six(self, text: str) -> str:
        bare = text if text.endswith("::") else text.removesuffix(":")
        try:
            address = IPv6Address(bare)
        except ValueError:
            return text if not re.search("[A-Fa-f]", text) else _ATOMS.sub(self._replace_atom, text)
        if address.is_loopback or address.is_unspecified:
            return text
        one = bare if self.names.find(bare) else str(address)  # one address, however it is spelled
        return names_of(one, "ipv6_", self.names) + text[len(bare) :]

    def _replace_atom(self, match: re.Match[str]) -> str:
        return self._atom(match[0], argument=False)

    def _four(self, text: str) -> str:
        try:
            address = ip_address(text)
        except ValueError:
            padded = all(part.isascii() and int(part) < 256 for part in text.split("."))  # 010.001.002.003
            return names_of(text, "ip", self.names) if padded else text  # a version or a number of a table
        return text if address.is_loopback or address.is_unspecified else names_of(text, "ip", self.names)

    def _path(self, text: str) -> str:
        if all(map(self._stays, text.split("/"))) and not text.startswith("/"):
            return text  # `194.2/s`, `and/or`
        core = text.rstrip(EDGE) if not text.endswith("~") else text
        if "@" in core.partition("/")[0]:
            first, sign, rest = core.partition("/")
            return self._atom(first, argument=False) + sign + path(rest, self.names) + text[len(core) :]
        return path(core, self.names) + text[len(core) :]

    def _atom(self, word: str, *, argument: bool) -> str:
        if argument and re.search(r"\d", word) and not self.is_pseudonym(word):
            return self._local_pseudonym(word)
        if word not in self._atoms:
            self._atoms[word] = self._redact_word(word)
        return self._atoms[word]

    def _redact_word(self, word: str) -> str:
        if (known := self.names.find(word)) is not None:
            return known
        if self._stays(word):
            return word
        if "@" in word.strip("@"):
            return self._redact_address(word)
        if is_release(word):
            return without_additions(word)
        return self._host(word) or self._file(word) or names_of(word, "word", self.names)

    def _stays(self, word: str) -> bool:
        folded = word.casefold()
        if folded in public_words() or not word or self.is_pseudonym(word):
            return True
        if (
            folded.startswith(("vm.", "kernel.")) and folded.partition(".")[2] in public_words()
        ):  # as sysctl spells them
            return True
        if NUMBER.fullmatch(word) or DEVICE.fullmatch(word) or OF_KERNEL.fullmatch(word):
            return True
        return is_program(word) or self.kernel_function(word)

    def is_pseudonym(self, word: str) -> bool:
        """Whether it is a pseudonym already, ours or of `sos clean`."""
        if HOST_OF_SOS.fullmatch(word):
            return True
        if OF_SOS.match(word) or self.names.is_pseudonym(word):
            return all(OF_SOS.fullmatch(p) or self.names.is_pseudonym(p) or p in extensions() for p in word.split("."))
        parts = word.split(".")
        return self._redacted and OWN.fullmatch(parts[0]) is not None and all(
            OWN.fullmatch(p) or p in extensions() for p in parts
        )  # fmt: skip

    def _redact_address(self, word: str) -> str:
        """`user@host` of a prompt, or mail."""
        user, _, host = word.partition("@")
        if host.rpartition(".")[2] in _UNITS and "." in host:
            return segment(word, self.names, "file")
        if not self.is_pseudonym(host) and self.names.secret(host) is None and "." in host and not self._host(host):
            return names_of(word, "mail", self.names)
        person = user if is_program(user) or self.is_pseudonym(user) or not user else names_of(user, "user", self.names)
        if _NO_HOST.fullmatch(host):
            return f"{person}@{host}"
        place = self._host(host) or (host if self.is_pseudonym(host) else names_of(host, "host", self.names))
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


_NOBODY = frozenset({"-", "localhost", "host"})  # what a case is called whose host is not known
_PROCESS = re.compile(r"^(.+?)( \(\d+\))$", re.DOTALL)
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
