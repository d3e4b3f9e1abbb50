"""Allow lists: words of tools and kernel messages, known programs, functions and paths that may stay in a line.

The lists are files, so that a security officer can read them. Of kernel releases the version and additions of
distributions stay; additions of the customer are removed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_RELEASE = re.compile(r"(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?(?:\.\d{1,3})?)([-.+_~].+)")
_BEGINS_WITH_ADDRESS = re.compile(r"(?!2\.6\.)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")  # 10.1.2.3_backup, 10.1.2.3.5432
_RELEASE_PART = re.compile(
    r"\d+[a-z]?\d{0,3}|rc\d+|el\d+(?:_\d+)*(?:uek)?|uek|fc\d+|amzn\d*|generic|lowlatency|default|pae|bigmem|smp|xen|kvm|aws|azure|gcp|oracle|oem|hwe|cloud|rt|debug"
    r"|amd64|i386|i686|x86|64|arm64|aarch64|ppc64le|s390x|deb\d+u?\d*|bpo\d*|pve|ubuntu|virtual|server|desktop|centos|plus|elrepo|lt|ml|lp\d+|cm\d|fips|linuxkit|microsoft|standard"
    r"|wsl2|arch\d*|zen|raspi|v7|v8|cip|linode\d*|g[0-9a-f]{7,12}", re.IGNORECASE
)  # fmt: skip
_FILE = re.compile(r"(?:(?:vmlinu[xz]|initr(?:d|amfs)|System\.map|config|kernel|linux)-)?([\w.+~-]+?)(?:\.img)?")


def is_release(text: str) -> bool:
    """Return whether a text looks like a kernel release and not like an address."""
    return (
        _RELEASE.fullmatch(text) is not None
        and not _BEGINS_WITH_ADDRESS.match(text)
        and not text.replace(".", "").isdigit()
    )


def without_additions(release: str) -> str:
    """Return the release up to the first part that no distribution uses."""
    match = _RELEASE.fullmatch(release)
    if match is None:
        return release
    public_part = match[1]
    for sign, part in re.findall(r"([-.+_~])([^-.+_~]*)", match[2]):
        if part and not _RELEASE_PART.fullmatch(part):
            break
        public_part += sign + part
    return public_part.rstrip("-._~")


def is_distribution_file(name: str) -> bool:
    """Return whether a file is named after a release of a distribution: `vmlinuz-4.4.0-142-generic`."""
    match = _FILE.fullmatch(name)
    return match is not None and is_release(match[1]) and without_additions(match[1]) == match[1]


# A word with all characters that can be part of a name: db-1.example.com, a%20b, me@host, café in both Unicode forms
ATOM = r"[^\W][\w.@+%~$&\u0300-\u036f\u200b-\u200f-]*"
EDGE_CHARACTERS = ".@+%~$&-\u200b\u200c\u200d\u200e\u200f"
_COMMENT = re.compile(r"^#.*$", re.MULTILINE)
# Names that the kernel and its drivers give to devices
DEVICE = re.compile(
    r"(?:sd[a-z]{1,3}|vd[a-z]{1,2}|xvd[a-z]{1,2}|hd[a-z])\d{0,3}|nvme\d+(?:c\d+)?n\d+(?:p\d+)?|dm-\d+|md\d{1,3}|loop\d+|sr\d|fd\d"
    r"|(?:eth|bond|wlan|ens|eno|em|tun|tap|veth|tty|ttyS|pts|lo|cpu|node|zone|order|hctx)\d{0,4}"
)
_UNIT = r"(?:%|[kKMGTPE]i?[bB]?|B|[munp]?s|us|x|[hHzZ]|[mM][hH]z|G[hH]z|th|st|nd|rd|d|[+])?"
NUMBER = re.compile(
    rf"[+-]?\d{{1,40}}(?:\.\d+)?(?:[eE][+-]?\d{{1,3}})?{_UNIT}|0[xX][0-9a-fA-F]{{1,16}}|\d+(?:\.\d+){{2}}|\d{{1,9}}-\d{{1,9}}"
    r"|\d+(?:\.\d+)?[gmtk]|\d{1,3}\.\d%(?:us|sy|ni|id|wa|hi|si|st)|\d{1,5}m\d{1,2}\.\d{1,3}s|\d{1,4}(?:~\d\d\.\d\d(?:\.\d)?)?-Ubuntu|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\d\d|[DRSTtWXZI][<NLsl+]{0,4}"
    r"|\d{4}-\d\d-\d\d(?:[T_-]\d\d)?|\d\d-\d\d-\d\d|\d\d(?:\.\d+)?[+-]\d\d|\d{8}-\d{6}|\d{1,2}[A-Z][a-z]{2}(?:\d{2}|\d{4})|\d{1,3}-\d\d",
    re.ASCII,
)
# Ids of rules, kernel addresses, sizes of huge pages, flags of allocations
KERNEL_TOKEN = re.compile(
    r"(?:THP|ALT|CTX)-\d{1,4}|E\d|ffff[0-9a-f]{12}|0{8,16}|hugepages-\d+[kK][bB]|node\d+|cpu\d+"
    r"|_{0,3}GFP_(?:KERNEL|ATOMIC|NOIO|NOFS|NOWAIT|USER|HIGHUSER|HIGHUSER_MOVABLE|TRANSHUGE|TRANSHUGE_LIGHT|COMP|ZERO|NOWARN|NORETRY"
    r"|RETRY_MAYFAIL|NOFAIL|HIGH|IO|FS|DIRECT_RECLAIM|KSWAPD_RECLAIM|RECLAIM|THISNODE|ACCOUNT|MOVABLE|RECLAIMABLE|HARDWALL|MEMALLOC|DMA|DMA32)",
    re.ASCII,
)


@cache
def word_list(name: str) -> frozenset[str]:
    """Return the words of a list, casefolded."""
    return frozenset(_text(name).casefold().split())


@cache
def extensions() -> frozenset[str]:
    """Return the file name extensions that may stay."""
    return word_list("extensions")


@cache
def public_words() -> frozenset[str]:
    """Return the words that may stay in a customer's line."""
    return word_list("lines") | word_list("kernel")


@cache
def modules() -> frozenset[str]:
    """Return the kernel modules that any host may have, as the kernel spells them."""
    return word_list("modules")


@cache
def path_words() -> frozenset[str]:
    """Return the words that segments of a path may consist of."""
    return word_list("paths") | extensions()


def is_program(name: str) -> bool:
    """Return whether a program, user or kernel thread is one that any host may have."""
    return bool(_patterns("programs").fullmatch(name))


def is_function(name: str) -> bool:
    """Return whether a function belongs to libc, an allocator or a runtime."""
    return bool(_patterns("functions").fullmatch(name))


@cache
def _patterns(name: str) -> re.Pattern[str]:
    return re.compile("|".join(filter(None, _text(name).splitlines())))


def _text(name: str) -> str:
    text = files("thpdiag.redact").joinpath("lists", f"{name}.txt").read_text(encoding="utf-8")
    return _COMMENT.sub("", text)
