"""The plain form: its file goes straight into the storage; fields beside it are small, and it is whole or nothing."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.uploads.intake import BLOCK_BYTES
from thpdiag.serve.uploads.whole import MAX_FORM_OVERHEAD, MultipartReader
from upload_requests import GONE, Answer, Sending, sending

KIND = "multipart/form-data; boundary=b0undary"
END = b"--b0undary--\r\n"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Sending]:
    with sending(tmp_path) as made:
        yield made


def part(disposition: str, data: bytes) -> bytes:
    return f"--b0undary\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + data + b"\r\n"


FIELD = part('name="comment"', b"text")


def file(data: bytes, name: str = "sos.tar.xz") -> bytes:
    return part(f'name="bundle"; filename="{name}"', data)


def sent(page: Sending, *pieces: bytes, **headers: str) -> Answer:
    return page.call("POST", "/upload", *pieces, **{"content_type": KIND, **headers})


@pytest.mark.parametrize("piece", [1, 7, 65_536])
def test_the_file_of_a_form_is_one_bundle(page: Sending, piece: int) -> None:
    """However the network cuts the body, also through a boundary; what looks like one inside the file is none."""
    data = b"\r\n--b0undar\r\n\r\n--b0undarx \x00\xff--b0undary--\r\r\n-" * 20
    body = FIELD + file(data) + part('name="later"', b"x") + END

    answer = sent(page, *(body[i : i + piece] for i in range(0, len(body), piece)))

    assert answer.status == 303, answer
    assert page.bundles() == [hashlib.sha256(data).hexdigest()]
    assert page.whole.claimed().job.name == "sos.tar.xz"


def test_a_large_file_is_not_spooled(page: Sending, monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> None:
    """Nothing goes through the folder for temporary files."""
    empty = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(empty))
    for name in ("_TemporaryFileWrapper", "TemporaryFile", "SpooledTemporaryFile"):
        monkeypatch.setattr(tempfile, name, None)

    assert sent(page, FIELD, file(b"x" * 5 * BLOCK_BYTES), END).status == 303
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, FIELD + END),
        (400, FIELD + file(b"", name="") + END),
        (400, FIELD + file(b"x") + file(b"", name="empty") + END),
        (400, FIELD + file(b"x") + file(b"y", name="..") + END),
        (400, part('name="text"', b" \r\n ") + END),
        (400, FIELD + file(b"x", name="../x") + END),
        (400, FIELD + FIELD + file(b"x") + END),
        (400, FIELD + file(b"x")),
        (400, FIELD + file(b"x")[:-8]),
        (400, FIELD + file(b"x") + b"--b0undary\r\n"),
        (400, b"what is this"),
        (400, part('name="x"', b"") * 33 + END),
        (400, FIELD + b"--b0undary\r\nX: " + b"y" * 100_000),
        (413, FIELD + part('name="long"', b"x" * 70_000) + END),
        (507, FIELD + file(b"x" * 3 * BLOCK_BYTES) + END),
    ],
)
def test_what_is_no_form_with_one_file(tmp_path: Path, status: int, body: bytes) -> None:
    """No file, two, a path for a name, a form that ends early or is something else: nothing of it stays."""
    with sending(tmp_path, quota=1 if status == 507 else None) as page:
        assert sent(page, body).status == status
        assert (page.bundles(), page.unfinished()) == ([], [])


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
def test_another_kind_of_body_is_refused(page: Sending, kind: str) -> None:
    """Before a byte of it."""
    answer = sent(page, b"x", content_type=kind, expect="100-continue")

    assert (answer.status, answer.received) == (415, 0)


def test_a_form_that_breaks_leaves_nothing(page: Sending) -> None:
    """Nobody can take it up again."""
    sent(page, FIELD, file(b"x" * 2 * BLOCK_BYTES)[:-10], GONE)

    assert (page.bundles(), page.unfinished()) == ([], [])


def test_too_large_is_refused_before_a_byte(tmp_path: Path) -> None:
    """By the announced length; the rest of the form is granted some room."""
    with sending(tmp_path, limit=BLOCK_BYTES) as page:
        length = str(BLOCK_BYTES + MAX_FORM_OVERHEAD + 1)
        told = sent(page, b"x", content_length=length, expect="100-continue")

        assert (told.status, told.received) == (413, 0)
        assert sent(page, FIELD, file(b"x" * BLOCK_BYTES), END).status == 303
        assert sent(page, FIELD, file(b"x" * (BLOCK_BYTES + 1)), END).status == 413
        assert sent(page, FIELD, file(b"x"), END, b"x" * 2 * BLOCK_BYTES).status == 413  # after the end of the form
        assert len(page.bundles()) == 1


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 700), max_size=12))
def test_the_parts_are_those_that_were_sent(data: bytes, cuts: list[int]) -> None:
    """Any content, cut anywhere."""
    assume(b"--b0undary" not in data)
    form, body = MultipartReader(KIND), FIELD + file(data) + END
    places = sorted({min(cut, len(body)) for cut in cuts} | {0, len(body)})

    came = [piece for a, b in pairwise(places) for piece in form.feed(body[a:b])]

    assert (form.files, form.is_complete, b"".join(part for _, part in came)) == (["sos.tar.xz"], True, data)
    assert form.fields == {"comment": b"text"}


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=400) | st.builds(lambda a, b: FIELD + a + END + b, st.binary(), st.binary()))
def test_any_body_is_a_form_or_refused(body: bytes) -> None:
    """Nothing else comes of what somebody sends."""
    with suppress(RefusedError):
        MultipartReader(KIND).feed(body)
