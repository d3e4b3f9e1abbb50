"""Which bundles a folder holds. The rules, in the words of the user:

- A folder **is one bundle** if something in it says so (`proc`, `sys`, `etc`, `var`, `sos_commands`, `version.txt`,
  the `capture.log` of our own capture ...), or if it has plain files and neither an archive nor a folder. `etc`, `var`
  and `version.txt` say so together; one of them alone says nothing beside two archives or more. Nor do the `sos_logs`
  and `sos_reports` that sos collect leaves with the archives of its hosts: there they are passed over.
- Any other folder **holds bundles**: each archive in it, each folder by these same rules, and each other file, but for
  its README and those that belong to one beside them (`companions`): checksums and signatures of an archive, symbols of
  a recording.
- A name that begins with a dot is passed over, as the shell does; so is an empty folder.
- Results of a triage are passed over, those of this run too. Of a folder that holds them its archives, recordings and
  folders are bundles as elsewhere, and it is one itself if something in it says so; its other files are taken for what
  triage wrote. A database that another program called `results.sqlite` is a file like others.
- A link to a file is read if the file lies within what the user named. A link to a folder there is passed over if that
  is found by its own name. If it is not, being hidden or fitting no pattern, it is read as what it is, once, unless
  the link lies in it. All other links, pipes, sockets and devices are told of and not read.

What is an archive is decided by its name, for no bundle is opened here.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from thpdiag.triage.item import Item
from thpdiag.triage.worklist.companions import companion, is_archive, is_for_readers, is_recording
from thpdiag.triage.worklist.listing import Kind, Name, Names, Texts, cannot, listed, no_file
from thpdiag.triage.worklist.within import Within

DEEPEST: Final = 32  # folders in folders; a bundle is not gone into
FOLDER_MARKS: Final = frozenset(
    ("proc", "sys", "etc", "var", "sos_commands", "sos_logs", "sos_reports", "sos_strings", "insights_commands")
)
_FILES: Final = frozenset((Kind.FILE, Kind.LINK))
_FILE_MARKS: Final = frozenset(("version.txt", "capture.log", "insights_archive.txt", "basic-environment.txt"))
OF_COLLECTOR: Final = frozenset(("sos_logs", "sos_reports"))
_WEAK: Final = frozenset(("etc", "var", "version.txt"))  # a CI's number, a folder that somebody made
_FEW: Final = 2  # fewer archives lie in folders of one host as well


def bundles(folder: Path, told: str, within: Within, depth: int = 0) -> Iterator[Item]:
    """The bundles of a folder, in the order of their names."""
    if depth > DEEPEST:
        yield Item(str(folder), told, refused=f"lies in more than {DEEPEST} folders and was not looked into")
        return
    try:
        names = listed(folder).only(lambda name: not name.hidden)
    except OSError as error:
        yield Item(str(folder), told, refused=cannot(error))
        return
    if (results := within.results(folder)) and is_host(names):
        refused = "has results of this run in it; name another --out-dir" if within.receives(folder) else ""
        yield Item(str(folder), told, refused=refused)
        return
    names = besides_results(folder, names, within)
    if is_bundle(names) and not results and not _leads_on(folder, names, within):
        yield Item(str(folder), told, _plain_size(folder, names))
        return
    for name in bundled(names):
        if not _for_people(name):
            yield from one(folder, name, f"{told}/{name.shown}", within, depth)


def one(folder: Path, name: Name, told: str, within: Within, depth: int = 0) -> Iterator[Item]:
    """The bundle or the bundles that one name of a folder stands for."""
    path = folder / name.name
    if name.kind is Kind.FOLDER:
        yield from bundles(path, told, within, depth + 1)
    elif name.kind is Kind.LINK:
        yield from _linked(path, told, within, depth)
    else:
        yield file(path, told)


def file(path: Path, told: str) -> Item:
    """A file as a bundle, or why it is none."""
    try:
        status = path.lstat()
    except OSError as error:
        return Item(str(path), told, refused=cannot(error))
    if stat.S_ISREG(status.st_mode):
        return Item(str(path), told, status.st_size)
    return Item(str(path), told, refused=no_file(status.st_mode))


def is_bundle(names: Names) -> bool:
    """Whether a folder with these names is one bundle."""
    if is_host(names):
        return True
    archives = sum(1 for _ in islice(_archives(names), _FEW))
    if _marks(names):
        return archives < _FEW
    return not archives and any(Texts(names, {Kind.FILE})) and not any(Texts(names, {Kind.FOLDER}))


def is_host(names: Names) -> bool:
    """Whether a folder with these names is one bundle whatever else is in it."""
    marks = _marks(names)
    return bool(marks - OF_COLLECTOR - _WEAK) or len(marks & _WEAK) > 1


def besides_results(folder: Path, names: Names, within: Within, depth: int = 0) -> Names:
    """The names of a folder without the results of a triage: what one wrote there, and folders with nothing else."""
    if within.results(folder):
        names = names.only(lambda name: not _is_result(folder, name))
    return names.only(lambda name: name.kind is not Kind.FOLDER or not _passed_over(folder / name.name, within, depth))


def bundled(names: Names) -> Iterator[Name]:
    """The names of a folder without those that belong to another file of it."""
    belongs = companion(Texts(names, _FILES))
    return (name for name in names if name.kind not in _FILES or not belongs(name.name))


def _marks(names: Names) -> set[str]:
    """What of the names says that the folder is one bundle."""
    folders, files = Texts(names, {Kind.FOLDER}), Texts(names, {Kind.FILE})
    return {mark for mark in FOLDER_MARKS if mark in folders} | {mark for mark in _FILE_MARKS if mark in files}


def _passed_over(folder: Path, within: Within, depth: int) -> bool:
    """Whether a folder has nothing but results."""
    if depth > DEEPEST or not within.results(folder):
        return False
    try:
        names = listed(folder).only(lambda name: not name.hidden)
    except OSError:
        return False
    return not is_host(names) and not besides_results(folder, names, within, depth + 1)


def _is_result(folder: Path, name: Name) -> bool:
    """Whether a name beside results is one of them: any file may be, for people write reports there."""
    if name.kind is Kind.FOLDER or is_archive(name.name) or is_recording(name.name):
        return False
    return not (name.kind is Kind.LINK and (folder / name.name).is_dir())


def _for_people(name: Name) -> bool:
    """Whether a name beside bundles is that of what people read."""
    if name.kind is Kind.FOLDER:
        return name.name in OF_COLLECTOR
    return name.kind in _FILES and is_for_readers(name.name)


def _archives(names: Names) -> Iterator[Name]:
    """Those among them that are bundles by themselves."""
    return (name for name in bundled(names) if name.kind is not Kind.FOLDER and is_archive(name.name))


def _linked(path: Path, told: str, within: Within, depth: int) -> Iterator[Item]:
    """What a link of the folder leads to."""
    try:
        target = path.resolve(strict=True)
        mode = target.lstat().st_mode
    except (OSError, RuntimeError):  # RuntimeError: a circle, in Python 3.11
        yield Item(str(path), told, refused="is a link that leads nowhere")
        return
    inside = within.holds(target)
    if not stat.S_ISDIR(mode):
        outside = stat.S_ISREG(mode) and not inside
        why = "is a link to a file outside of what was named, and not followed"
        yield Item(str(path), told, refused=why) if outside else file(target, told)
    elif not inside:
        yield Item(str(path), told, refused="is a link to a folder outside of what was named, and not followed")
    elif within.finds(target) or target in within.followed:
        return
    elif path.parent.resolve().is_relative_to(target):
        yield Item(str(path), told, refused="is a link to a folder that it lies in, and not followed")
    else:
        within.followed.add(target)  # before it is gone into: a circle has an end
        yield from bundles(target, told, within, depth + 1)


def _leads_on(folder: Path, names: Names, within: Within) -> bool:
    """Whether plain files are no bundle, for a link beside them leads to a folder that only it leads to."""
    return not _marks(names) and any(_leads_to_hidden(folder / name, within) for name in Texts(names, {Kind.LINK}))


def _leads_to_hidden(path: Path, within: Within) -> bool:
    try:
        target = path.resolve(strict=True)
        hidden = target.is_dir() and within.holds(target) and within.hides(target)
    except (OSError, RuntimeError):
        return False
    return hidden and not _passed_over(target, within, 0)


def _plain_size(folder: Path, names: Names) -> int:
    """The bytes of a folder of plain files; 0 for one with folders, which would have to be walked."""
    if any(name.kind is Kind.FOLDER for name in names):
        return 0
    return sum(file(folder / name.name, "").size for name in names if name.kind is Kind.FILE)
