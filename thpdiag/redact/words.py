"""Redaction of text: words on no allow list become pseudonyms; numbers, times and listed words stay.

Addresses, mail, `user@host` and paths are recognized by their form. In a quoted line everything after the first option
(`-p`, `--password`) is an argument of a program, where numbers are replaced too. So are values that are secret whatever
they look like: passwords, numbers of accounts.

Of paths, folders and files that any host or collector has stay; others become pseudonyms with the same extension, which
shows what a file was; `/home/anna` becomes `/home/user1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address

from thpdiag.model.text import token_pattern
from thpdiag.redact.allowed import (
    ATOM,
    DEVICE,
    EDGE_CHARACTERS,
    KERNEL_TOKEN,
    NUMBER,
    extensions,
    is_distribution_file,
    is_function,
    is_program,
    is_release,
    modules,
    path_words,
    public_words,
    without_additions,
)
from thpdiag.redact.names import PSEUDONYM, SOS_HOST, SOS_PSEUDONYM, Names

# Not the file modes of `ls -l`
_OPTION = re.compile(r"(?:^|(?<=\s))-{1,2}(?![rwxsStT-]{9}[\s.+])[A-Za-z]")
# A program with its path, but no folder of a prompt and no file of the kernel
_PROGRAM = re.compile(r"(?:^|(?<=[\s|(]))/(?!(?:proc|sys|dev|run)/)[\w.@+%~-]+/[^\s\]#$>,;:()]+(?=\s)")
# Labels within a name; those that are common parts of other words (`nr_foll_pin_acquired`) only as whole words
_PARTIAL_LABELS = (
    r"[\w-]*(?:passw(?:or)?d|passphrase|passcode)[\w-]*"
    r"|[\w-]*(?:secret|credential|api_?key|access_?key|token)[\w-]*(?=[\"']?\s?[:=])|--[\w-]*(?:secret|token|key)[\w-]*"
)
_WHOLE_WORD_LABELS = r"(?:pass|pwd|pw|pin|bearer|basic|iban|phone|tel|fax)"
_NUMBER_LABELS = (  # `license key 1234567`; with fewer digits it may be a count
    r"(?:licen[cs]e|serial|account|activation|customer|contract|ticket)(?:\s(?:number|no\.?|nr\.?|key|id|code))?"
    r"(?=[\s#]{1,3}\d{5})"
)
_ASSIGNED_LABELS = r"(?:key|account|acct|card|mobile|serial|sn|ssn|login|license)(?=[\"']?\s?[:=])"
_LABELLED = re.compile(
    rf"(?<![\w-])-{{0,2}}(?:{_PARTIAL_LABELS}|{_WHOLE_WORD_LABELS}|{_ASSIGNED_LABELS}|{_NUMBER_LABELS})(?![\w-])[\"']?\s{{0,3}}[:=#]?\s{{0,3}}[\"']?"
    r"([A-Z]{2}\d\d(?: [\dA-Z]{4}){2,7}(?: \d{1,4})?|\+?\d[\d ./-]*\d(?![\w])|[^\s\"',;]+)",
    re.IGNORECASE,
)
_PHONE = re.compile(r"(?<![\w.])\+\d{1,3}[ -]?\(\d{1,5}\)[\d ./-]{4,}\d(?!\w)")
_WEB = re.compile(r"[A-Za-z]\w*://[^\s\"'<>]+")
# `comm:4711` is a pid, and `Comm: 1.5` is not personal
_VALUE_LABEL = re.compile(r"(?<![\w.@%-])([\w.@%-]*[^\W\d][\w.@%-]*)[\"']?(?:=[\"']?|(:)(?:\s{1,3}[\"']?|[\"']))[+-]?$")
_LONG_NUMBER = re.compile(r"\d{4,}(?![\d.:])")
_MAX_LABEL_LENGTH = 80
# `jan` may be a person and `sun` a host: in a date a month has a day next to it, a weekday a month
_CALENDAR = re.compile(
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?= {1,2}[0-3]?\d(?:[ ,]|$))"
    r"|(?<=\d[ /-])(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?=[ /-]\d{2,4}\b)"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?=,? {1,2}(?:\d|[A-Z][a-z]{2} ))"
)
_CALENDAR_NAMES = frozenset({"jan", "jun", "mar", "sun", "sat", "dec"})

Span = tuple[int, int]


def arguments_begin(text: str) -> int:
    """Return where the arguments of a program begin; without arguments the end of the line."""
    option, program = _OPTION.search(text), _PROGRAM.search(text)
    return min(option.start() if option else len(text), program.end() if program else len(text))


def label(text: str, place: int) -> str | None:
    """Return the label of the value at this place: `NAME=4711`, `"name": "4711"`."""
    match = _VALUE_LABEL.search(text[max(0, place - _MAX_LABEL_LENGTH) : place])
    return None if match is None or (match[2] and not _LONG_NUMBER.match(text, place)) else match[1]


def calendar_names(text: str) -> Iterator[Span]:
    """Yield the spans of calendar words that are names, because they are not part of a date."""
    dates = {match.start() for match in _CALENDAR.finditer(text)}
    for match in re.finditer(r"(?<!\w)[A-Za-z]+(?!\w)", text):
        if match[0].casefold() in _CALENDAR_NAMES and match.start() not in dates:
            yield match.span()


_HOMES = frozenset({"home", "users", "user_homes"})
_EXTENSIONS = re.compile(r"((?:\.[A-Za-z]\w{0,8}|\.\d{1,4})+)$")
_ADDRESS = re.compile(r"\d{1,3}(?:[._-]\d{1,3}){3}")
_DAY_FILE = re.compile(r"sar?\d\d")
_LONG_DIGITS = re.compile(r"(?!20\d{6}$)\d{5,}")
_PARTS = re.compile(r"[\W_]+")


def path(text: str, names: Names) -> str:
    """Return the path with private segments replaced."""
    segments = text.split("/")
    redacted: list[str] = []
    for number, part in enumerate(segments):
        parent = segments[number - 1].casefold() if number else ""
        kind = "dir" if number < len(segments) - 1 else "file"
        if parent in _HOMES and part:
            redacted.append(pseudonym_of(part, "user", names))
        elif _LONG_DIGITS.fullmatch(part) and redacted != segments[:number]:  # a number in a private folder
            redacted.append(pseudonym_of(part, kind, names))
        else:
            redacted.append(segment(part, names, kind))
    return "/".join(redacted)


def pseudonym_of(name: str, kind: str, names: Names) -> str:
    """Return the pseudonym of a name, or the name if it is one."""
    return name if names.is_pseudonym(name) else names.pseudonym(kind, name)


def segment(part: str, names: Names, kind: str) -> str:
    """Return a segment of a path, redacted if it is private."""
    if (secret := names.secret(part)) is not None:
        return secret
    if _ADDRESS.fullmatch(part):
        return pseudonym_of(part, "ip", names)
    if not part or is_public_segment(part, names):
        return part
    stem, extension = _split_extension(part)
    if extension and stem and (names.secret(stem) or not is_public_segment(stem, names)):
        return f"{pseudonym_of(stem, kind, names)}{extension}"
    return pseudonym_of(part, kind, names)


def is_public_segment(part: str, names: Names) -> bool:
    """Return whether a segment is public."""
    bare = part.strip(".~-+")
    if not bare or names.is_pseudonym(bare) or NUMBER.fullmatch(bare) or DEVICE.fullmatch(bare):
        return True
    if bare.casefold() in public_words() or bare.casefold() in path_words():
        return True
    stem, extension = _split_extension(bare)
    if (extension and names.is_pseudonym(stem)) or is_distribution_file(bare):
        return True
    return (
        is_program(bare)
        or KERNEL_TOKEN.fullmatch(bare) is not None
        or all(map(_is_known_part, _PARTS.split(bare.casefold())))
    )


def _is_known_part(part: str) -> bool:
    return part in path_words() or part.isdigit() or not part or _DAY_FILE.fullmatch(part) is not None


def _split_extension(name: str) -> tuple[str, str]:
    """Return stem and known extensions: `acme.tar.gz` is `acme` and `.tar.gz`."""
    match = _EXTENSIONS.search(name)
    if not match:
        return name, ""
    parts = match.group().lstrip(".").split(".")
    known: list[str] = []
    while parts and (parts[-1].casefold() in extensions() or parts[-1].isdigit()):
        known.insert(0, parts.pop())
    extension = "".join(f".{end}" for end in known)
    return name.removesuffix(extension) if extension else name, extension


_MAC = r"(?<![\w:])(?:[0-9A-Fa-f]{2}[:-]){5}(?:[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){2})?[0-9A-Fa-f]{2}(?![\w:])"
_IPV6 = r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:])"
# Not 2.6.32.59-0.7, a kernel of SLES 11
_IPV4 = r"(?<![\w.])(?!2\.6\.\d\d\.\d{1,3}-)\d{1,3}(?:\.\d{1,3}){3}(?![\w])(?!\.\d)"
_PATH = r"[\w.@+%~\u0300-\u036f\u200b-\u200f-]*(?:/+[\w.@+%~\u0300-\u036f\u200b-\u200f-]+)+/?"
_TOKEN = re.compile(f"(?P<mac>{_MAC})|(?P<six>{_IPV6})|(?P<four>{_IPV4})|(?P<path>{_PATH})|(?P<atom>{ATOM})")
_COMPILER_SUFFIX = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm)(?:\.\d+)?|\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)+$")
_LINE_NUMBER = re.compile(r"(:\d+)$")


class Words:
    """Replaces private names in text."""

    def __init__(
        self, names: Names, functions: Iterable[str] = (), *, redacted: bool = False, named: bool = True
    ) -> None:
        """`functions` are those and the settings of the kernel; `redacted` is set if the text contains pseudonyms of
        thpdiag, `named` if the names in sentences of thpdiag are listed."""
        self.names = names
        self._functions = frozenset(functions)
        self._redacted = redacted
        self._named = named
        self._phrases: dict[str, str] = {}  # pseudonyms of program names of several words
        self._atoms: dict[str, str] = {}

    def line(self, text: str) -> str:
        """Redact a line of the customer."""
        text = self._without_phrases(text)
        if frame := _FRAME.fullmatch(text):
            return self._redact_frame(frame)
        if _FOLDED.fullmatch(text):
            return self.stack(text)
        return self._replace_names(text)

    def _replace_names(self, text: str) -> str:
        """Replace names; numbers too among arguments, after the host of a URL, and after a private label."""
        first_argument = arguments_begin(text)
        web_spans = [found.span() for found in _WEB.finditer(text)]
        secret = [found.span() for found in _PHONE.finditer(text)]
        secret += [*(found.span(1) for found in _LABELLED.finditer(text)), *calendar_names(text)]

        def replacement(match: re.Match[str]) -> str:
            place = match.start()
            if _is_marked_as_kernel(text, match):
                return match[0]
            if match["atom"] and any(begin <= place < end for begin, end in secret):
                return self._redact_secret(match[0])
            name = label(text, place)
            is_private = name is not None and not self._is_public(name.strip(EDGE_CHARACTERS))
            in_url = any(begin < place < end for begin, end in web_spans)
            return self._replace_match(match, argument=is_private or place >= first_argument or in_url)

        return _TOKEN.sub(replacement, text)

    def sentence(self, text: str, inside: Mapping[str, str] | None = None) -> str:
        """Redact a sentence or command of thpdiag: the names listed in `inside` are replaced by their pseudonyms.

        In the rest, known hosts, persons and addresses are replaced too, unless they are common words.
        """
        if not self._named:
            return self.line(text)
        parts, end = [], 0
        for match in token_pattern(inside or ()).finditer(text):
            parts += [_ATOMS.sub(self._redact_known_secret, text[end : match.start()]), (inside or {})[match[0]]]
            end = match.end()
        return "".join([*parts, _ATOMS.sub(self._redact_known_secret, text[end:])])

    def _redact_known_secret(self, match: re.Match[str]) -> str:
        core = match[0].rstrip(EDGE_CHARACTERS)
        if core.casefold() in public_words() or self.is_pseudonym(core):
            return match[0]
        return (self._find_host(core) or core) + match[0][len(core) :]

    def program(self, name: str) -> str:
        """Redact the name of a process or thread."""
        bare = name.strip("[]<>")
        if bare in ("", "?") or is_program(bare) or self.is_pseudonym(bare):
            return name
        alias = pseudonym_of(name, "proc", self.names)
        if not _ATOMS.fullmatch(name) and re.search(r"[^\W\d]", name):
            self._phrases[name] = alias
        return alias

    def host(self, name: str) -> str:
        """Redact the name of a host; `db1.example.com` is a host in a domain."""
        if name in _UNKNOWN_HOSTS or self.is_pseudonym(name):
            return name
        if (secret := self.names.secret(name)) is not None:
            return secret
        first, _, domain = name.partition(".")
        if not domain or not re.fullmatch(r"[\w-]+(\.[\w-]+)+", name):
            return self.names.pseudonym("host", name)
        return f"{self.names.pseudonym('host', first)}.{self.names.pseudonym('domain', domain)}"

    def entity(self, text: str) -> str:
        """Redact a process with its pid, a zone, a cpu, or a control group."""
        match = _PROCESS.match(text)
        return f"{self.program(match[1])}{match[2]}" if match else self.line(text)

    def _without_phrases(self, text: str) -> str:
        for name, pseudonym in self._phrases.items():
            if name in text:
                text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", pseudonym, text)
        return text

    def function(self, name: str) -> str:
        """Redact the name of a function whose place does not prove that it is in the kernel."""
        if name.startswith("[") and name.endswith("]"):
            return f"[{self.module(name[1:-1])}]"
        if (
            self.kernel_function(name)
            or (name.endswith("_[k]") and can_be_kernel_function(name[:-4]))
            or self.is_pseudonym(name)
            or is_function(name)
        ):
            return name
        return pseudonym_of(name, "fn", self.names)

    def module(self, name: str) -> str:
        """Redact a kernel module, or the file of a function without a name."""
        return name if name.casefold() in modules() else segment(name, self.names, "file")

    def stack(self, text: str) -> str:
        """Redact a task and its functions from the root, joined by `;`."""
        text, weight = (text[: match.start()], match[0]) if (match := _WEIGHT.search(text)) else (text, "")
        task, *functions = text.split(";")
        return ";".join([self.program(task), *map(self.function, functions)]) + weight

    def kernel_function(self, name: str) -> bool:
        """Return whether it is a function of the kernel; BPF programs loaded into it are named by the customer."""
        bare = _COMPILER_SUFFIX.sub("", name)
        known = {name, bare} & self._functions or ("_" in bare and bare.casefold() in public_words())
        return bool(known) and not name.startswith("bpf_prog_")

    def release(self, text: str) -> str:
        """Return a kernel release without additions of the customer."""
        if is_release(text):
            return without_additions(text)
        return text if NUMBER.fullmatch(text) or re.fullmatch(r"[\d.]+", text) else self.line(text)

    def place(self, text: str) -> str:
        """Redact a member, with or without a line number."""
        number = _LINE_NUMBER.search(text)
        bare = text[: number.start()] if number else text
        return path(bare, self.names) + (number[1] if number else "")

    def _redact_secret(self, text: str) -> str:
        """Redact a word that is secret because of its place, even if a list contains it."""
        core = text.rstrip(EDGE_CHARACTERS)
        return (core if self.is_pseudonym(core) or not core else self._local_pseudonym(core)) + text[len(core) :]

    def _local_pseudonym(self, word: str) -> str:
        """Return a pseudonym for this place only; a common word stays elsewhere."""
        return pseudonym_of(word, "arg" if self._is_public(word) else "word", self.names)

    def _replace_match(self, match: re.Match[str], *, argument: bool) -> str:
        text = match[0]
        if match["mac"]:
            address = text if self.names.find(text) else text.replace("-", ":").casefold()
            return pseudonym_of(address, "mac", self.names)
        if match["six"]:
            return self._redact_ipv6(text)
        if match["four"]:
            return self._redact_ipv4(text)
        if match["path"]:
            return self._redact_path(text)
        core = text.rstrip(EDGE_CHARACTERS)
        return self._redact_atom(core, argument=argument) + text[len(core) :]

    def _redact_ipv6(self, text: str) -> str:
        bare = text if text.endswith("::") else text.removesuffix(":")
        try:
            address = IPv6Address(bare)
        except ValueError:
            return text if not re.search("[A-Fa-f]", text) else _ATOMS.sub(self._replace_atom, text)
        if address.is_loopback or address.is_unspecified:
            return text
        known = bare if self.names.find(bare) else str(address)  # one address in all spellings
        return pseudonym_of(known, "ipv6_", self.names) + text[len(bare) :]

    def _replace_atom(self, match: re.Match[str]) -> str:
        return self._redact_atom(match[0], argument=False)

    def _redact_ipv4(self, text: str) -> str:
        try:
            address = ip_address(text)
        except ValueError:
            padded = all(part.isascii() and int(part) < 256 for part in text.split("."))  # 010.001.002.003
            return pseudonym_of(text, "ip", self.names) if padded else text  # a version or a number in a table
        return text if address.is_loopback or address.is_unspecified else pseudonym_of(text, "ip", self.names)

    def _redact_path(self, text: str) -> str:
        if all(map(self._is_public, text.split("/"))) and not text.startswith("/"):
            return text  # `194.2/s`, `and/or`
        core = text.rstrip(EDGE_CHARACTERS) if not text.endswith("~") else text
        if "@" in core.partition("/")[0]:
            first, sign, rest = core.partition("/")
            return self._redact_atom(first, argument=False) + sign + path(rest, self.names) + text[len(core) :]
        return path(core, self.names) + text[len(core) :]

    def _redact_atom(self, word: str, *, argument: bool) -> str:
        if argument and re.search(r"\d", word) and not self.is_pseudonym(word):
            return self._local_pseudonym(word)
        if word not in self._atoms:
            self._atoms[word] = self._redact_word(word)
        return self._atoms[word]

    def _redact_word(self, word: str) -> str:
        if (known := self.names.find(word)) is not None:
            return known
        if self._is_public(word):
            return word
        if "@" in word.strip("@"):
            return self._redact_address(word)
        if is_release(word):
            return without_additions(word)
        return self._find_host(word) or self._redact_file(word) or pseudonym_of(word, "word", self.names)

    def _is_public(self, word: str) -> bool:
        folded = word.casefold()
        if folded in public_words() or not word or self.is_pseudonym(word):
            return True
        if folded.startswith(("vm.", "kernel.")) and folded.partition(".")[2] in public_words():  # spelling of sysctl
            return True
        if NUMBER.fullmatch(word) or DEVICE.fullmatch(word) or KERNEL_TOKEN.fullmatch(word):
            return True
        return is_program(word) or self.kernel_function(word)

    def is_pseudonym(self, word: str) -> bool:
        """Return whether a word is a pseudonym, of thpdiag or of `sos clean`."""
        if SOS_HOST.fullmatch(word):
            return True
        parts = word.split(".")
        if SOS_PSEUDONYM.match(word) or self.names.is_pseudonym(word):
            return all(SOS_PSEUDONYM.fullmatch(p) or self.names.is_pseudonym(p) or p in extensions() for p in parts)
        return self._redacted and PSEUDONYM.fullmatch(parts[0]) is not None and all(
            PSEUDONYM.fullmatch(p) or p in extensions() for p in parts
        )  # fmt: skip

    def _redact_address(self, word: str) -> str:
        """Redact `user@host` of a prompt, or a mail address."""
        user, _, host = word.partition("@")
        if host.rpartition(".")[2] in _UNITS and "." in host:
            return segment(word, self.names, "file")
        is_alias = self.is_pseudonym(host)
        if "." in host and not is_alias and self.names.secret(host) is None and not self._find_host(host):
            return pseudonym_of(word, "mail", self.names)
        is_public = is_program(user) or self.is_pseudonym(user) or not user
        person = user if is_public else pseudonym_of(user, "user", self.names)
        if _NOT_A_HOST.fullmatch(host):
            return f"{person}@{host}"
        place = self._find_host(host) or (host if is_alias else pseudonym_of(host, "host", self.names))
        return f"{person}@{place}"

    def _find_host(self, word: str) -> str | None:
        """Return the pseudonym of a known host with its domain."""
        first, _, domain = word.partition(".")
        host, place = self.names.secret(first), self.names.secret(domain)
        file = place is None and domain.rpartition(".")[2].casefold() in extensions()  # `host.txt`
        if not domain or file or not (host or place):
            return self.names.secret(word)
        host = host or pseudonym_of(first, "host", self.names)
        return f"{host}.{place or pseudonym_of(domain, 'domain', self.names)}"

    def _redact_file(self, word: str) -> str | None:
        ending = word.rpartition(".")[2]
        return segment(word, self.names, "file") if "." in word and ending.casefold() in extensions() else None

    def _redact_frame(self, frame: re.Match[str]) -> str:
        """Redact a stack line of perf script."""
        location = frame["object"]
        bracketed = location.startswith("[")
        name = frame["name"]
        is_kernel = bracketed and _is_kernel_object(location) and can_be_kernel_function(name)
        function = name if is_kernel else self.function(name)
        object_name = location if bracketed and _KERNEL_OBJECT.fullmatch(location) else self._redact_object(location)
        return f"{frame['begin']}{function}{frame['offset'] or ''} ({object_name}){frame['end']}"

    def _redact_object(self, within: str) -> str:
        if within.startswith("["):
            return f"[{self.module(within[1:-1])}]" if within.endswith("]") else self.line(within)
        return " ".join(path(part, self.names) if "/" in part else self.line(part) for part in within.split(" "))


_UNKNOWN_HOSTS = frozenset({"-", "localhost", "host"})  # names of a case with an unknown host
_PROCESS = re.compile(r"^(.+?)( \(\d+\))$", re.DOTALL)
_PERF_ROW = re.compile(r"(?P<object>\S*)\s*\[k\] $")  # a row of perf report or perf top before the function
_KERNEL_MARK = re.compile(r"\]\s+\[k\] ")
_UNITS = frozenset({"service", "slice", "scope", "socket", "mount", "timer"})  # `user@1000.service`
_NOT_A_HOST = re.compile(r"(?:pts|tty\w{0,5}|notty|localhost|host)")  # `sshd: anna@pts/0`, `builder@host`
_KERNEL_OBJECT = re.compile(
    r"\[?(?:(?:guest\.)?kernel(?:\.(?:kallsyms|vmlinux))?(?:\.\d+)?|vmlinux|unknown|vdso|vsyscall)\]?(?:\.init\.text)?"
)
_C_NAME = re.compile(r"[\w.$]+")
_WEIGHT = re.compile(r" \d{1,20}$")
_FOLDED = re.compile(r"[^;]{1,64}(?:;[^;]+){2,}")
_ATOMS = re.compile(ATOM)
_FRAME = re.compile(
    r"(?P<begin>\s*[0-9a-f]{2,16} )(?P<name>.+?)(?P<offset>\+0x[0-9a-f]+)?"
    r" \((?P<object>[^()]*(?:\(deleted\))?)\)(?P<end>\s*)"
)


def _is_kernel_object(place: str) -> bool:
    """Return whether an object belongs to the kernel or a public module; a column of numbers is no module."""
    module = place.rpartition("/")[2].partition(".ko")[0].strip("[]").casefold()
    return not (place.startswith("[") or ".ko" in place) or bool(_KERNEL_OBJECT.fullmatch(place)) or module in modules()


def _is_marked_as_kernel(text: str, match: re.Match[str]) -> bool:
    """Return whether a row of perf report or perf top marks the match as a kernel function or public module."""
    row = _PERF_ROW.search(text[: match.start()])
    if row:
        return _is_kernel_object(row["object"]) and can_be_kernel_function(match[0])
    return match[0].casefold() in modules() and _KERNEL_MARK.match(text, match.end()) is not None


def can_be_kernel_function(name: str) -> bool:
    """Return whether a name in a kernel object can be a kernel function; BPF programs are named by the customer."""
    return _C_NAME.fullmatch(name) is not None and not name.startswith("bpf_prog_")
