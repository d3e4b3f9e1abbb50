"""Kernel releases: the version and what distributions add to it stay, what the customer added goes."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?(?:\.\d{1,3})?)([-.+_~].+)")
_BEGINS_WITH_ADDRESS = re.compile(r"(?!2\.6\.)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")  # 10.1.2.3_backup, 10.1.2.3.5432
_OF_RELEASE = re.compile(
    r"\d+[a-z]?\d{0,3}|rc\d+|el\d+(?:_\d+)*(?:uek)?|uek|fc\d+|amzn\d*|generic|lowlatency|default|pae|bigmem|smp|xen|kvm|aws|azure|gcp|oracle|oem|hwe|cloud|rt|debug"
    r"|amd64|i386|i686|x86|64|arm64|aarch64|ppc64le|s390x|deb\d+u?\d*|bpo\d*|pve|ubuntu|virtual|server|desktop|centos|plus|elrepo|lt|ml|lp\d+|cm\d|fips|linuxkit|microsoft|standard"
    r"|wsl2|arch\d*|zen|raspi|v7|v8|cip|linode\d*|g[0-9a-f]{7,12}", re.IGNORECASE
)  # fmt: skip
_FILE = re.compile(r"(?:(?:vmlinu[xz]|initr(?:d|amfs)|System\.map|config|kernel|linux)-)?([\w.+~-]+?)(?:\.img)?")


def is_release(text: str) -> bool:
    """Whether it looks like a release, and not like an address."""
    return (
        _RELEASE.fullmatch(text) is not None
        and not _BEGINS_WITH_ADDRESS.match(text)
        and not text.replace(".", "").isdigit()
    )


def without_additions(release: str) -> str:
    """The release up to what is known of no distribution."""
    found = _RELEASE.fullmatch(release)
    if found is None:
        return release
    kept = found[1]
    for sign, part in re.findall(r"([-.+_~])([^-.+_~]*)", found[2]):
        if part and not _OF_RELEASE.fullmatch(part):
            break
        kept += sign + part
    return kept.rstrip("-._~")


def is_of_distribution(name: str) -> bool:
    """Whether a file is named after a release without additions of the customer: `vmlinuz-4.4.0-142-generic`."""
    found = _FILE.fullmatch(name)
    return found is not None and is_release(found[1]) and without_additions(found[1]) == found[1]
