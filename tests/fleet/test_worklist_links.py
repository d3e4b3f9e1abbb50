"""Links: what they lead to is read once, by one name, and nothing outside of what the user named is."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundle_lists import make, refused, told
from thpdiag.fleet.sources.items import find_items


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which we stand."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_links_in_a_folder(here: Path) -> None:
    """To a file within: read. To a folder within: it is found by its own name. All others are told of."""
    make("n/a.tar", "n/deep/b.tar", "other/c.tar")
    for name, target in {
        "1-file": "deep/b.tar", "2-folder": "deep", "3-out": "../other/c.tar", "4-out": "../other", "5-up": "..",
        "6-gone": "nowhere", "7-itself": "7-itself", "8-host": "/etc/passwd", "9-null": "/dev/null",
    }.items():  # fmt: skip
        Path("n", name).symlink_to(target)
    assert told("n") == ["n/1-file", "n/a.tar", "n/deep/b.tar"]
    assert {name: why.split(",")[0] for name, why in refused("n").items()} == {
        "n/3-out": "is a link to a file outside the given paths",
        "n/4-out": "is a link to a folder outside the given paths",
        "n/5-up": "is a link to a folder outside the given paths",
        "n/6-gone": "is a dangling link",
        "n/7-itself": "is a dangling link",
        "n/8-host": "is a link to a file outside the given paths",
        "n/9-null": "is a device",
    }
    assert next(find_items(["n"])).place == str(here / "n/deep/b.tar")


def link(**targets: str) -> None:
    """Links in `n`."""
    for name, target in targets.items():
        Path("n", name).symlink_to(target)


@pytest.mark.usefixtures("here")
def test_what_only_a_link_leads_to_is_read() -> None:
    """Its folder is hidden, as that of a store of versions; what is found by its own name is not read twice."""
    make("n/.store/web1/proc/stat", "n/.store/more/a.tar", "n/.store/more/b/vmstat.txt", "n/web3/proc/stat")
    link(web1=".store/web1", more=".store/more", again="web1", web2="web3")
    assert told("n") == ["n/again", "n/more/a.tar", "n/more/b", "n/web3"]
    assert told("n/web*") == ["n/web1", "n/web3"]
    assert refused("n") == {}
    (item,) = (item for item in find_items(["n"]) if item.label == "n/again")
    assert Path(item.place).parts[-2:] == (".store", "web1")


@pytest.mark.usefixtures("here")
def test_a_link_beside_plain_files_is_read_too() -> None:
    """They are no bundle that would hide it. One to a folder that is found elsewhere changes nothing, nor marks."""
    make("n/notes.txt", "n/.store/web1/proc/stat", "m/case/notes.txt", "m/web1/proc/stat")
    link(web1=".store/web1")
    Path("m/case/web1").symlink_to("../web1")
    assert told("n") == ["n/notes.txt", "n/web1"]
    assert told("m") == told("m/*") == ["m/case", "m/web1"]
    assert told("m/c*") == ["m/case"]
    make("n/proc/stat")
    assert told("n") == ["n"]


@pytest.mark.usefixtures("here")
def test_a_link_that_a_pattern_fits() -> None:
    """It is followed if the folder does not fit itself."""
    make("n/2026-11-22/web1.tar", "n/2026-11-23/web1.tar", "n/2026-11-23/web2.tar", "other/a.tar")
    link(latest="2026-11-23", lately="../other", later="nowhere")
    assert told("n/lat*") == ["n/latest/web1.tar", "n/latest/web2.tar"]
    assert told("n/*") == ["n/2026-11-22/web1.tar", "n/2026-11-23/web1.tar", "n/2026-11-23/web2.tar"]
    assert told("n/**/web1.tar") == ["n/2026-11-22/web1.tar", "n/2026-11-23/web1.tar"]
    assert refused("n/lat*") == {
        "n/lately": "is a link to a folder outside the given paths, and not followed",
        "n/later": "is a dangling link",
    }


@pytest.mark.usefixtures("here")
def test_a_link_to_a_folder_around_it() -> None:
    """By a pattern it may be all that fits; what it leads to is found without it otherwise."""
    make("n/a/b/c.tar", "n/a/d.tar")
    Path("n/a/b/up").symlink_to("..")
    assert told("n") == ["n/a/b/c.tar", "n/a/d.tar"]
    assert refused("n") == {}
    assert refused("n/*/*/u*") == {"n/a/b/up": "is a link to a parent folder, and not followed"}


@pytest.mark.usefixtures("here")
def test_hidden_folders_that_link_to_each_other() -> None:
    """Each is read once: eight that have links to all others would be 40,320 ways."""
    for one in range(8):
        make(f"n/.{one}/{one}.tar")
        for other in range(8):
            Path(f"n/.{one}/to{other}").symlink_to(f"../.{other}")
    link(way=".0")
    found = told("n")
    assert sorted(name.rpartition("/")[2] for name in found) == [f"{number}.tar" for number in range(8)]
    assert refused("n") == {}
