"""Uploads in a browser on the real server: progress, kill -9, pause, reload, and what cannot be taken."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from serve_process import Running, running
from upload_browser import A_CASE, LONG, NewContext, bundle, digest, kept, opened

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("serve") / "data") as started:
        yield started


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Running]:
    """One that takes little, and has room for less."""
    with running(tmp_path / "strict", "--upload-limit", "3 MiB", "--quota", "2 MiB") as started:
        yield started


def test_a_bundle_is_uploaded_and_its_diagnosis_shown(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """Name, size, progress and rate are seen on the way; then the page goes to the job and on to the case."""
    file = bundle(tmp_path, "web1.tar", 3 * MIB, seed=11)
    sending = opened(new_context, server.url)
    sending.slow(3 * MIB)
    sending.choose(file)

    expect(sending.row()).to_contain_text("web1.tar")
    expect(sending.told()).to_have_text(re.compile(r"of 3\.\d MiB, \d+ %; .*MiB/s, \d+ s left"))
    expect(sending.row().get_by_role("progressbar", name="Upload of web1.tar")).to_be_visible()
    expect(sending.page).to_have_url(A_CASE)
    expect(sending.page.locator("main")).to_contain_text("THP-")
    assert digest(file)[0] in kept(server.folder)
    assert sending.complaints == []


def test_an_upload_outlives_kills_of_the_server(new_context: NewContext, tmp_path: Path) -> None:
    """Killed at random places and started again at the same address, it goes on by itself; nothing is lost or twice."""
    shares = sorted(random.Random(8).uniform(0.05, 0.9) for _ in range(3))
    file = bundle(tmp_path, "db1.tar", 16 * MIB)
    with running(tmp_path / "data") as server:
        server.options += ("--port", str(server.port))
        sending = opened(new_context, server.url)
        sending.slow(4 * MIB)
        sending.choose(file)
        for share in shares:
            sending.passed(share)
            server.end(signal.SIGKILL)
            expect(sending.told()).to_contain_text("The server does not answer")
            sending.try_now()
            server.start()
            expect(sending.told()).to_contain_text("Goes on")

        expect(sending.page).to_have_url(A_CASE)
        expect(sending.page.locator("main")).to_contain_text("THP-")
        assert kept(server.folder) == digest(file)
        assert list((server.folder / "uploads").iterdir()) == []
        assert len(sending.asked("POST", "files")) == 1  # never begun anew
        assert len(sending.asked("HEAD", "files")) >= len(shares)
        assert "Traceback" not in server.log.read_text()
    assert sending.complaints == []


@pytest.mark.proof
def test_proof_of_a_gibibyte(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """A large bundle comes whole, and its page stays quiet."""
    file = bundle(tmp_path, "large.tar", 1024 * MIB)
    sending = opened(new_context, server.url)
    sending.choose(file)
    expect(sending.page).to_have_url(A_CASE, timeout=20 * LONG)
    assert digest(file)[0] in kept(server.folder)
    assert sending.complaints == []


def test_it_goes_on_by_itself(new_context: NewContext, tmp_path: Path) -> None:
    """Nobody presses anything: it tries again after growing waits."""
    file = bundle(tmp_path, "db2.tar", 4 * MIB)
    with running(tmp_path / "data") as server:
        server.options += ("--port", str(server.port))
        sending = opened(new_context, server.url)
        sending.slow(2 * MIB)
        sending.choose(file)
        sending.passed(0.3)
        server.end(signal.SIGKILL)
        expect(sending.told()).to_contain_text("The server does not answer. Next try in")
        server.start()

        expect(sending.page).to_have_url(A_CASE)
        assert kept(server.folder) == digest(file)


def test_pause_resume_and_cancel(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """A paused upload steps aside for the next one, and goes on where it was; a cancelled one is gone at the server."""
    first = bundle(tmp_path, "first.tar", 6 * MIB, seed=21)
    second = bundle(tmp_path, "second.tar", MIB, seed=22)
    sending = opened(new_context, server.url)
    sending.slow(2 * MIB)
    sending.page.check("#separate")
    sending.choose(first, second)
    expect(sending.told(1)).to_have_text("Waiting.")
    sending.passed(0.2)
    sending.press("Pause")
    expect(sending.told()).to_contain_text("Paused at")
    expect(sending.row().get_by_role("button", name="Resume")).to_be_focused()
    expect(sending.told(1)).to_have_text("Analyzed.")
    sending.press("Resume")
    expect(sending.told()).to_contain_text("Goes on")
    with sending.page.expect_response(lambda one: one.request.method == "DELETE" and one.status == 204):
        sending.press("Cancel")

    expect(sending.page.locator("#transfers > li")).to_have_count(1)
    expect(sending.page.locator("#file")).to_be_focused()
    assert digest(second)[0] in kept(server.folder)
    assert digest(first)[0] not in kept(server.folder)


def test_the_same_file_goes_on_after_the_page_was_loaded_again(
    server: Running, new_context: NewContext, tmp_path: Path
) -> None:
    """The page asks before it is left, names what it had begun, and sends only the rest once the file is chosen."""
    file = bundle(tmp_path, "long.tar", 8 * MIB, seed=31)
    sending = opened(new_context, server.url)
    sending.slow(2 * MIB)
    sending.choose(file)
    sending.passed(0.4)
    sending.page.reload()
    assert sending.dialogs == ["beforeunload"]
    left = sending.page.locator("#left-behind li")
    expect(left).to_contain_text("long.tar")
    expect(left).to_contain_text("of 8.")
    expect(sending.page.locator("#left-behind")).to_contain_text("the upload resumes")
    sending.requests.clear()
    sending.choose(file)
    expect(left).to_have_count(0)
    expect(sending.told()).to_contain_text("Goes on")
    sending.slow(-1)

    expect(sending.page).to_have_url(A_CASE)
    assert next(one.method for one in sending.requests if "/files" in one.url) == "HEAD"
    assert sending.asked("POST", "files") == []
    assert digest(file)[0] in kept(server.folder)


def test_two_files_are_one_case(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """Sent one after the other, judged together; a text that is pasted on the page of the case comes to it."""
    files = [bundle(tmp_path, f"host{number}.tar", 1000, seed=50 + number) for number in range(2)]
    sending = opened(new_context, server.url)
    sending.choose(*files)
    expect(sending.page).to_have_url(A_CASE)
    first = sending.page.url
    expect(sending.page.locator("section[aria-labelledby=files] > ul > li")).to_have_count(2)
    assert set(digest(*files)) <= set(kept(server.folder))

    sending.page.click("#add > summary")
    sending.page.click(".paste > summary")
    sending.page.fill("#text", "$ uname -r\n5.14.0-1.el9\n")
    sending.page.click("#paste")
    expect(sending.page.locator("section[aria-labelledby=files] > ul > li")).to_have_count(3)
    expect(sending.page.locator("#versions")).to_be_visible()
    assert sending.page.url != first
    sending.page.goto(first)
    expect(sending.page.locator("main")).to_contain_text("This is an older version of the case.")
    assert sending.complaints == []


def test_several_files_one_of_them_junk_as_separate_cases(
    server: Running, new_context: NewContext, tmp_path: Path
) -> None:
    """The row of the junk says in words that it was refused, and why."""
    (tmp_path / "junk.txt").write_text("nothing of use\n", encoding="utf-8")
    sending = opened(new_context, server.url)
    sending.page.check("#separate")
    sending.choose(bundle(tmp_path, "web.tar", 1000, seed=60), tmp_path / "junk.txt")
    expect(sending.told(0)).to_have_text("Analyzed.")
    expect(sending.told(1)).to_have_text("Refused: nothing in it was recognized.")
    assert sending.row(1).get_attribute("data-state") == "refused"


def test_files_and_text_without_script(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """The form sends several files and what was pasted as one case."""
    sending = opened(new_context, server.url, java_script_enabled=False)
    sending.choose(bundle(tmp_path, "plain.tar", 1000, seed=70))
    sending.page.click(".paste > summary")
    sending.page.fill("#text", "$ uname -r\n5.14.0-2.el9\n")
    sending.page.get_by_role("button", name="Upload").click()
    expect(sending.page.locator("section[aria-labelledby=files] > ul > li")).to_have_count(2)


def test_separate_cases_are_sent_in_a_row(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """One after the other; the page stays and links to both cases."""
    files = [bundle(tmp_path, f"host{number}.tar", 1000, seed=40 + number) for number in range(2)]
    sending = opened(new_context, server.url)
    sending.page.check("#separate")
    sending.choose(*files)
    for number in range(2):
        expect(sending.told(number)).to_have_text("Analyzed.")
    links = [sending.row(number).get_by_role("link").get_attribute("href") for number in range(2)]

    assert len(set(links)) == 2
    assert set(digest(*files)) <= set(kept(server.folder))
    for link in links:
        sending.page.goto(f"{server.url}{link}")
        expect(sending.page).to_have_url(A_CASE)


def test_files_are_dropped(server: Running, new_context: NewContext) -> None:
    """Anywhere on the page; a text that is dragged over it is none of its business."""
    sending = opened(new_context, server.url)
    sending.page.evaluate(
        """() => {
          const given = new DataTransfer();
          given.items.add(new File(["dropped"], "dropped.txt"));
          document.querySelector("h1").dispatchEvent(
            new DragEvent("drop", {dataTransfer: given, bubbles: true, cancelable: true}));
        }"""
    )
    expect(sending.page).to_have_url(A_CASE)
    assert sending.complaints == []


def test_what_is_too_large_is_said_before_a_byte_is_sent(strict: Running, new_context: NewContext) -> None:
    """Nothing is asked of the server, also for an empty file; trying again is not offered."""
    sending = opened(new_context, strict.url)
    sending.choose(
        {"name": "large.tar", "mimeType": "", "buffer": bytes(4 * MIB)},
        {"name": "empty", "mimeType": "", "buffer": b""},
    )
    expect(sending.told(0)).to_have_text("The file is too large: this server takes at most 3.0 MiB.")
    expect(sending.told(1)).to_have_text("The file is empty.")
    assert [one.url for one in sending.requests if "/files" in one.url] == []
    expect(sending.row().get_by_role("button")).to_have_count(1)


def test_a_full_server_says_so(strict: Running, new_context: NewContext) -> None:
    """In words, and somebody may try again once there is room; what fits is taken after it."""
    sending = opened(new_context, strict.url)
    sending.choose({"name": "large.tar", "mimeType": "", "buffer": bytes(5 * MIB // 2)})
    expect(sending.told()).to_contain_text("The server has no room for this file.")
    expect(sending.told()).to_contain_text("quota")
    sending.press("Try again")
    expect(sending.told()).to_contain_text("The server has no room for this file.")
    sending.choose({"name": "small.txt", "mimeType": "", "buffer": b"small"})
    expect(sending.told(1)).to_have_text("Refused: nothing in it was recognized.")


@pytest.mark.parametrize(
    ("name", "shown", "taken"),
    [
        ("<img src=x onerror=alert(1)>.txt", "<img src=x onerror=alert(1)>.txt", True),
        ('"><svg onload=alert(1)>\t', '"><svg onload=alert(1)>\\u{9}', False),
        ("gpj.\u202etxt.exe", "gpj.\\u{202e}txt.exe", False),
        ("bell\x07.txt", "bell\\u{7}.txt", False),
        ("n" * 300, "n" * 300, False),
    ],
    ids=["markup", "script", "right to left", "control character", "long"],
)
def test_a_hostile_name_is_text(name: str, shown: str, taken: bool, server: Running, new_context: NewContext) -> None:
    """It runs nothing and hides nothing, wherever it is shown; one that the server refuses is refused in words."""
    sending = opened(new_context, server.url)
    sending.choose({"name": name, "mimeType": "", "buffer": name.encode()})
    if taken:
        expect(sending.page).to_have_url(A_CASE)
    else:
        expect(sending.row().locator(".name")).to_have_text(shown)
        expect(sending.told()).to_contain_text("The server does not accept this file. The server reports: the name")
        assert sending.sideways() == 0
    assert (sending.dialogs, sending.complaints) == ([], [])
