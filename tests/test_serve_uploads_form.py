"""The plain form: its file goes straight into the storage, once the fields before it say that the form is ours."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from thpdiag.serve.uploads.body import BLOCK
from thpdiag.serve.uploads.form import SLACK
from thpdiag.serve.uploads.parts import Begins, Parts
from thpdiag.serve.uploads.refused import RefusedError
from uploading import GONE, Answer, FolderSink, Page

KIND = "multipart/form-data; boundary=b0undary"
END = b"--b0undary--\r\n"


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(FolderSink(tmp_path))


def part(disposition: str, data: bytes) -> bytes:
    return f"--b0undary\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + data + b"\r\n"


CSRF = part('name="csrf"', b"secret")


def file(data: bytes, name: str = "sos.tar.xz") -> bytes:
    return part(f'name="bundle"; filename="{name}"', data)


def sent(page: Page, *pieces: bytes, **headers: str) -> Answer:
    return page.call("POST", "/upload", *pieces, **({"content_type": KIND} | headers))


@pytest.mark.parametrize("piece", [1, 7, 65_536])
def test_the_file_of_a_form_is_one_bundle(page: Page, piece: int) -> None:
    """However the network cuts the body, also through a boundary; what looks like one inside the file is none."""
    data = b"\r\n--b0undar\r\n\r\n--b0undarx \x00\xff--b0undary--\r\r\n-" * 20
    body = CSRF + file(data) + part('name="later"', b"x") + END

    answer = sent(page, *(body[i : i + piece] for i in range(0, len(body), piece)))

    assert answer.status == 201, answer
    assert [(a.sha256, a.name) for a in page.arrived] == [(hashlib.sha256(data).hexdigest(), "sos.tar.xz")]


def test_a_large_file_is_not_spooled(page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> None:
    """Nothing goes through the folder for temporary files."""
    empty = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(empty))
    monkeypatch.setattr(tempfile, "_TemporaryFileWrapper", None)
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", None)

    assert sent(page, CSRF, file(b"x" * 5 * BLOCK), END).status == 201
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [file(b"x") + CSRF + END, file(b"x") + END, part('name="csrf"', b"guessed") + file(b"x") + END],
    ids=["token after the file", "no token", "another token"],
)
def test_a_form_that_is_not_ours_is_refused(page: Page, body: bytes) -> None:
    """The token of the page comes before the file, or the file is not taken."""
    assert sent(page, body).status == 403
    assert page.sink.names() == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, CSRF + END),
        (400, CSRF + file(b"", name="") + END),
        (400, CSRF + file(b"x") + file(b"y") + END),
        (400, CSRF + file(b"x", name="../x") + END),
        (400, CSRF + CSRF + file(b"x") + END),
        (400, CSRF + file(b"x")),
        (400, CSRF + file(b"x")[:-8]),
        (400, CSRF + file(b"x") + b"--b0undary\r\n"),
        (400, b"what is this"),
        (400, part('name="x"', b"") * 33 + END),
        (400, CSRF + b"--b0undary\r\nX: " + b"y" * 100_000),
        (413, CSRF + part('name="comment"', b"x" * 70_000) + END),
        (507, CSRF + file(b"x" * 3 * BLOCK) + END),
    ],
)
def test_what_is_no_form_with_one_file(tmp_path: Path, status: int, body: bytes) -> None:
    """No file, two, a path for a name, a form that ends early or is something else: nothing of it stays."""
    page = Page(FolderSink(tmp_path, room=2 * BLOCK))

    assert sent(page, body).status == status
    assert (page.arrived, page.sink.names()) == ([], [])


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
def test_another_kind_of_body_is_refused(page: Page, kind: str) -> None:
    """Before a byte of it."""
    answer = sent(page, b"x", content_type=kind, expect="100-continue")

    assert (answer.status, answer.received) == (415, 0)


def test_a_form_that_breaks_leaves_nothing(page: Page) -> None:
    """Nobody can take it up again."""
    sent(page, CSRF, file(b"x" * 2 * BLOCK)[:-10], GONE)

    assert (page.arrived, page.sink.names()) == ([], [])


def test_too_large_is_refused_before_a_byte(tmp_path: Path) -> None:
    """By the announced length; the rest of the form is granted some room."""
    page = Page(FolderSink(tmp_path), limit=BLOCK)

    told = sent(page, b"x", content_length=str(BLOCK + SLACK + 1), expect="100-continue")

    assert (told.status, told.received) == (413, 0)
    assert sent(page, CSRF, file(b"x" * BLOCK), END).status == 201
    assert sent(page, CSRF, file(b"x" * (BLOCK + 1)), END).status == 413
    assert sent(page, CSRF, file(b"x"), END, b"x" * 2 * BLOCK).status == 413  # after the end of the form
    assert len(page.arrived) == 1


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 700), max_size=12))
def test_the_parts_are_those_that_were_sent(data: bytes, cuts: list[int]) -> None:
    """Any content, cut anywhere."""
    assume(b"--b0undary" not in data)
    parts, body = Parts(KIND), CSRF + file(data) + END
    places = sorted({min(cut, len(body)) for cut in cuts} | {0, len(body)})

    events = [e for a, b in pairwise(places) for e in parts.feed(body[a:b])]
    parts.end()

    assert events.pop(0) == Begins("sos.tar.xz", {"csrf": "secret"})
    assert b"".join(events) == data


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=400) | st.builds(lambda a, b: CSRF + a + END + b, st.binary(), st.binary()))
def test_any_body_is_a_form_or_refused(body: bytes) -> None:
    """Nothing else comes of what somebody sends."""
    parts = Parts(KIND)
    with suppress(RefusedError):
        parts.feed(body)
        parts.end()
