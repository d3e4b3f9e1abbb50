"""Names of more than 100 characters in tars: GNU tar writes them as a member of their own, before the one they name."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Container, Iterator
from itertools import islice
from pathlib import Path

import pytest

from thpdiag.bundle import Limits, Member, members

FOLDER = "sosreport-web1-2026-11-20-abcdefg/sys/devices/pci0000:00/0000:00:1f.2/"
DEEP = "very-deep/"


def content(depth: int = 5) -> dict[str, bytes]:
    return {f"{FOLDER}{DEEP * depth}{n:04}/attribute": b"%d\n" % n * (n % 700) for n in range(1500)}


def names(form: int, depth: int = 5, *, directories: bool = False) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in content(depth).items():
            if directories:
                folder = tarfile.TarInfo(name.rpartition("/")[0] + "/")
                folder.type = tarfile.DIRTYPE
                archive.addfile(folder)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    out.seek(0)
    return out


def read(archive: io.BytesIO, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    for found in members([Path("-")], wanted.__contains__, stdin=archive):
        assert isinstance(found, Member), found
        yield found.path, b"".join(found.chunks())


@pytest.mark.parametrize("directories", [False, True], ids=["files alone", "with directories"])
@pytest.mark.parametrize(
    "form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT], ids=["gnu", "pax", "ustar"]
)
@pytest.mark.parametrize("every", [1, 2, 97])
def test_members_with_long_names_are_found(form: int, every: int, *, directories: bool) -> None:
    """Each wanted one with its whole name and content, wherever the others end in the buffer."""
    wanted = dict(islice(content().items(), 0, None, every))

    assert min(map(len, wanted)) > 100
    assert dict(read(names(form, directories=directories), wanted)) == wanted


@pytest.mark.parametrize("depth", [40, 60, 390])
@pytest.mark.parametrize("every", [1, 2, 97])
def test_members_with_very_long_names_are_found(depth: int, every: int) -> None:
    """Names that take up several blocks of the archive, of GNU tar."""
    wanted = dict(islice(content(depth).items(), 0, None, every))

    assert dict(read(names(tarfile.GNU_FORMAT, depth), wanted)) == wanted


def test_a_limit_of_names_holds_for_long_ones() -> None:
    """A name beyond it is cut and told, however the member is found."""
    limits = Limits(name=300)
    found = list(members([Path("-")], lambda _: True, limits, stdin=names(tarfile.GNU_FORMAT, 40)))
    assert {len(one.path) for one in found if isinstance(one, Member)} <= set(range(301))
    assert any("limit name" in one.text for one in found if not isinstance(one, Member))


def test_a_long_name_without_a_member_is_no_member() -> None:
    """What follows it is damaged: the name is given to nothing."""
    whole = names(tarfile.GNU_FORMAT).getvalue()
    first = whole.index(b"0001/attribute") // 512 * 512 - 512  # the header of the long name
    broken = whole[: first + 1024] + b"\xff" * 512 + whole[first + 1536 :]
    found = [m for m in members([Path("-")], lambda _: True, stdin=io.BytesIO(broken)) if isinstance(m, Member)]

    assert f"{FOLDER}{DEEP * 5}0001/attribute" not in [m.path for m in found]
    assert len(found) == len(content()) - 1
