"""The page of a job, and that of uploads without script, without a mouse, in the dark and on a telephone."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from serve_application import BEFORE, STORM, Whole, archive, served
from serve_process import Running, running
from thpdiag.serve.access.principals import Mode
from upload_browser import A_CASE, A_JOB, TELEPHONE, WIDE, NewContext, Sending, opened

SETTINGS = [("light", WIDE), ("dark", TELEPHONE)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("serve") / "data") as started:
        yield started


@contextmanager
def listening(folder: Path, mode: Mode = Mode.NONE) -> Iterator[tuple[Whole, str]]:
    """A server whose jobs the test does; its contexts have to be closed before."""
    at = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{at.getsockname()[1]}"
    with served(folder, mode, origin=origin) as whole, whole.listening(at) as url:
        yield whole, url


@pytest.fixture
def local(tmp_path: Path) -> Iterator[tuple[Whole, str]]:
    with listening(tmp_path) as made:
        yield made


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[tuple[Whole, str]]:
    with listening(tmp_path, Mode.TOKENS) as made:
        yield made


def signed_in(whole: Whole, url: str, new_context: NewContext, *scopes: str, **browser: Any) -> Sending:
    (_, cookie), _ = whole.signed_in(*scopes)
    name, _, value = cookie.partition("=")
    context = new_context(**browser)
    context.add_cookies([{"name": name, "value": value, "url": url}])
    return Sending(context.new_page(), f"{url}/")


def test_a_job_is_followed(local: tuple[Whole, str], new_context: NewContext) -> None:
    """Its place, its stage and its end are shown as they come, and the case after it; nothing is loaded meanwhile."""
    whole, url = local
    whole.uploaded(b"first", "first.txt")
    job = whole.uploaded(BEFORE.read_bytes(), "<b>second</b>.json").job
    sending = opened(new_context, url)
    page = sending.page
    page.goto(f"{url}/jobs/{job}")
    expect(page.locator("main")).to_contain_text("<b>second</b>.json")
    expect(page.locator("#stage")).to_have_text("1 analysis is before it")
    claim = whole.claimed()
    expect(page.locator("#stage")).to_have_text("next in the queue")
    whole.storage.jobs.fail(claim, "no")
    claim = whole.claimed()
    whole.storage.jobs.heartbeat(claim, "reading file 12")
    expect(page.locator("h1")).to_have_text("Being analyzed")
    expect(page.locator("#stage")).to_have_text("reading file 12")
    whole.done(claim, json.loads(BEFORE.read_bytes()))
    expect(page).to_have_url(A_CASE)
    assert sending.complaints == []


def test_a_failed_job_says_why_and_what_to_do(local: tuple[Whole, str], new_context: NewContext) -> None:
    """Also while it is looked at; what the reason says stays text."""
    whole, url = local
    job = whole.uploaded(b"bundle", "bundle.tar").job
    sending = opened(new_context, url)
    sending.page.goto(f"{url}/jobs/{job}")
    expect(sending.page.locator("#stage")).to_have_text("next in the queue")
    whole.storage.jobs.fail(whole.claimed(), "it took <i>more</i> than 1 hour", "refused")

    expect(sending.page.locator("h1")).to_have_text("The analysis failed")
    expect(sending.page.locator("main")).to_contain_text("it took <i>more</i> than 1 hour")
    expect(sending.page.get_by_role("link", name="upload it")).to_be_visible()
    assert sending.violations() == []


def test_who_may_only_upload_is_told_the_verdict_of_their_own(
    tokens: tuple[Whole, str], new_context: NewContext
) -> None:
    """And nothing else: no list of cases, no case, no job of others."""
    whole, url = tokens
    foreign = whole.uploaded(b"foreign", "foreign.txt").job
    whole.storage.jobs.fail(whole.claimed(), "no")
    sending = signed_in(whole, url, new_context, "upload")
    expect(sending.page.locator("h2", has_text="Latest cases")).to_have_count(0)
    sending.choose({"name": "own.json", "mimeType": "", "buffer": BEFORE.read_bytes()})
    expect(sending.page).to_have_url(A_JOB)
    expect(sending.page.locator("#stage")).to_have_text("next in the queue")
    whole.done(whole.claimed(), json.loads(BEFORE.read_bytes()))
    expect(sending.page.locator("main")).to_contain_text("34.2 % of the non-idle samples")
    assert sending.violations() == []
    assert sending.page.goto(f"{url}/jobs/{foreign}").status == 404  # type: ignore[union-attr]


def test_a_page_that_has_become_too_old_gets_a_new_token(tokens: tuple[Whole, str], new_context: NewContext) -> None:
    """Its uploads go on; without a session they end with a sentence that says what to do."""
    whole, url = tokens
    sending = signed_in(whole, url, new_context, "upload", "read")
    page = sending.page
    page.route(f"{url}/", lambda route: route.fulfill(response=(got := route.fetch()), body=aged(got.text())), times=1)
    page.reload()
    sending.choose({"name": "a.txt", "mimeType": "", "buffer": b"a"})
    expect(page).to_have_url(A_JOB)
    assert [one.response().status for one in sending.asked("POST", "files")] == [403, 201]  # type: ignore[union-attr]

    page.goto(f"{url}/")
    page.context.clear_cookies()
    sending.choose({"name": "b.txt", "mimeType": "", "buffer": b"b"})
    expect(sending.told()).to_contain_text("You are signed out. Sign in again")


def aged(page: str) -> str:
    """The page with tokens that count no more."""
    return re.sub(r"(csrf=\"?)[0-9a-f]{32}\.", rf"\g<1>{'0' * 32}.", page)


def test_without_script_a_form_leads_to_the_diagnosis(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """File, button, a page that loads itself until there is a case."""
    sending = opened(new_context, server.url, java_script_enabled=False)
    file = tmp_path / "plain.tar"
    file.write_bytes(archive(STORM))
    sending.choose(file)
    sending.page.get_by_role("button", name="Upload").click()

    expect(sending.page).to_have_url(A_CASE)
    expect(sending.page.locator("main")).to_contain_text("THP-041")


def test_keys_are_enough(server: Running, new_context: NewContext, tmp_path: Path) -> None:
    """Tab reaches the choice of files, and Enter opens it."""
    file = tmp_path / "keys.tar"
    file.write_bytes(archive(STORM))
    sending = opened(new_context, server.url)
    sending.page.on("filechooser", lambda _: None)  # from here on; what Enter opens may not overtake the wish to see it
    choice = sending.page.locator("#file")
    for _ in range(12):
        sending.page.keyboard.press("Tab")
        if choice.evaluate("one => one === document.activeElement"):
            break
    expect(choice).to_be_focused()
    with sending.page.expect_file_chooser() as chooser:
        sending.page.keyboard.press("Enter")
    chooser.value.set_files(file)
    expect(sending.page).to_have_url(A_CASE)


@pytest.mark.parametrize(("scheme", "size"), SETTINGS, ids=["light and wide", "dark and narrow"])
def test_axe_finds_nothing(
    scheme: str, size: dict[str, int], local: tuple[Whole, str], new_context: NewContext
) -> None:
    """In every state of an upload, and at every stage of a job; nothing is wider than the screen."""
    whole, url = local
    whole.completed(BEFORE)
    sending = opened(new_context, url, color_scheme=scheme, viewport=size, reduced_motion="reduce")
    looked: list[object] = [sending.violations()]
    sending.slow(1 << 20)
    sending.page.check("#separate")
    sending.choose(*({"name": f"{n}" * 80, "mimeType": "", "buffer": bytes(n << 20)} for n in (8, 2, 0)))
    sending.passed(0.05)
    looked.append(sending.violations())
    sending.press("Pause")
    expect(sending.told()).to_contain_text("Paused at")
    looked += [sending.violations(), sending.sideways()]
    expect(sending.told(1)).to_have_text("Uploaded. It waits to be analyzed.")
    looked += [sending.violations(), sending.sideways()]
    sending.page.goto(f"{url}{sending.row(1).get_by_role('link').get_attribute('href')}")
    expect(sending.page.locator("#stage")).to_have_text("next in the queue")
    looked += [sending.violations(), sending.sideways()]
    sending.page.goto(url)
    expect(sending.page.locator("#left-behind li")).to_have_count(1)
    looked += [sending.violations(), sending.sideways()]

    assert looked == [[], [], [], 0, [], 0, [], 0, [], 0]
