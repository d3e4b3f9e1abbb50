"""What is worked out of a store in tables beside it: in order, complete, in a file that nobody sees."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from thpdiag.errors import StoreFullError
from thpdiag.store.spill import SpilledFirst, SpilledTexts, SpillFile


@pytest.fixture
def aside(tmp_path: Path) -> Iterator[SpillFile]:
    made = SpillFile(tmp_path)
    yield made
    made.close()


def test_the_first_of_many(aside: SpillFile) -> None:
    """Of ten thousand the first hundred in order, and never more than twice as many are kept."""
    first, orders = SpilledFirst(aside, 100), [number * 7919 % 10_007 for number in range(10_000)]
    for order in orders:
        first.add((order,), order.__str__)
        assert first._kept < 200

    assert list(map(int, first)) == sorted(orders)[:100]
    assert list(first) == list(first)
    assert (len(first), first.total) == (100, 10_000)


def test_they_are_ordered_as_python_orders_them(aside: SpillFile) -> None:
    """Numbers below, at and beyond zero, names of any language, lone surrogates, texts that begin alike, NUL."""
    chance = random.Random(3)
    letters = ("", "a", "b", "B", "a\0", "ab", "\x7f", "\u00e9", "\ud800", "\udcff", "\uffff", "\U0001f600")
    numbers = (float("-inf"), -1.5, -1, 0, 0.5, 1, 2**40, float("inf"))
    first, orders = SpilledFirst(aside, 10_000), list[tuple[float, str, int]]()
    for number in range(5_000):
        order = (chance.choice(numbers), "".join(chance.choices(letters, k=2)), number)
        orders.append(order)
        first.add(order, lambda order=order: f"{order[1]}{order[2]}")  # type: ignore[misc]

    assert list(first) == [f"{text}{number}" for _, text, number in sorted(orders)]


def test_equal_ones_stay_as_they_came(aside: SpillFile) -> None:
    """Also if some of them are too many."""
    first = SpilledFirst(aside, 10)
    for number in range(100):
        first.add((number % 2,), str(number).__str__)

    assert list(first) == [str(number) for number in range(0, 20, 2)]


def test_what_is_not_among_the_first_is_not_made(aside: SpillFile) -> None:
    """A row of a table costs something."""
    made: list[int] = []

    def text(number: int) -> str:
        made.append(number)
        return str(number)

    first = SpilledFirst(aside, 10)
    for number in range(1_000):
        first.add((number,), lambda number=number: text(number))  # type: ignore[misc]

    assert made == list(range(20))


def test_nothing_was_added(aside: SpillFile) -> None:
    """An empty list, and no file."""
    assert (list(SpilledFirst(aside, 10)), len(SpilledFirst(aside, 10)), aside._database) == ([], 0, None)


def test_notes(aside: SpillFile) -> None:
    """One text for each key, the last one; of numbers with 64 bits too."""
    notes = SpilledTexts(aside)
    for key, text in ((1, "a"), ("1/0", "b"), (-(2**63), "c"), (1, "d"), ("gone", "e")):
        notes[key] = text
    del notes["gone"]

    assert [notes.get(key) for key in (1, "1/0", -(2**63), "1", "gone")] == ["d", "b", "c", None, None]
    assert (len(notes), 1 in notes, 2 in notes) == (3, True, False)


def opened_in(folder: Path) -> list[Path]:
    """The temporary files of this process in a folder, as the kernel tells them, with a name or without."""
    files = []
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the folder of these numbers
            files.append(number.readlink())
    return [file for file in files if file.parent == folder and file.name.startswith(".aside-")]


def test_nobody_sees_its_file(aside: SpillFile, tmp_path: Path) -> None:
    """It has no name from the beginning, so that nothing of it is left by a program that is killed."""
    SpilledTexts(aside)["a"] = "b" * 10_000_000

    assert opened_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_room_is_told(aside: SpillFile, tmp_path: Path) -> None:
    """As one sentence that names the folder."""
    notes = SpilledTexts(aside)
    aside.run("PRAGMA max_page_count = 10")

    with pytest.raises(StoreFullError, match=f"{tmp_path}: no room"):
        notes["a"] = "b" * 100_000


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store on a medium that is read-only can be reported."""
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(other))
    made = SpillFile(tmp_path / "not there")
    SpilledTexts(made)["a"] = "b"

    found = opened_in(other)
    made.close()
    assert found


def test_a_closed_one_is_closed(tmp_path: Path) -> None:
    """Its connection does not wait for the end of the program."""
    made = SpillFile(tmp_path)
    SpilledTexts(made)
    database = made._database
    made.close()

    assert database is not None
    with pytest.raises(sqlite3.ProgrammingError):
        database.execute("SELECT 1")
