"""What `serve` answers over HTTP: the ways of a bundle and its case, and what is forbidden without a token.

Of each answer status, type and headers that matter are recorded, and its JSON without what differs from run to run.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from contract.fixture_inputs import FIXTURES
from contract.made_inputs import noise, pack
from contract.recorded_answers import compare
from contract.report_parts import describe_report, visible_text, without_versions
from contract.run_command import run_command, start_command
from contract.separate_words import separate

LONG = 180.0  # seconds that nothing takes unless something is broken
HEADERS = ("content-type", "x-thpdiag-exit", "www-authenticate", "allow", "tus-resumable", "x-content-type-options",
           "content-security-policy", "content-disposition", "referrer-policy", "cache-control")  # fmt: skip
VARYING = (
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])"), "ID"),
    (re.compile(r"20[23]\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"), "NOW"),
    (re.compile(r"-[0-9a-f]{8}\."), "-ID."),  # in the name of a file to save
    (re.compile(r"'(sha256|nonce)-[\w+/=-]+'"), r"'\1'"),
)
PAGES = ("/", "/cases", "/cases/{case}", "/cases/{case}/page", "/cases/{case}/lines?member=bundle/session.txt&line=30",
         "/cases/{case}/compare?with={other}", "/cases/{case}/comparison?with={other}", "/fleet", "/fleet/page",
         "/fleet/fleet.csv", "/fleet/fleet.json", "/rules", "/rules/THP-001", "/rules/NO-1", "/tokens", "/sign-in",
         "/nothing", "/static/none", "/cases/" + "0" * 32)  # fmt: skip
REPORTS = ("html", "json", "txt", "md", "sarif", "xml", "gitlab.json", "github.txt", "csv", "nope")


class Server:
    """A server on a folder in a process of its own, and its answers."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.command = ("serve", "--data", folder, "--port", "0", *options)
        self.log = folder.with_suffix(".log")
        self.port = 0

    @contextmanager
    def running(self) -> Iterator[Server]:
        with (
            self.log.open("w") as log,
            start_command(*self.command, stdout=subprocess.PIPE, stderr=log) as process,
        ):
            try:
                assert process.stdout
                line = process.stdout.readline()
                assert "http://" in line, self.log.read_text()
                self.port = int(line.split("http://")[1].split("/")[0].rpartition(":")[2])
                yield self
            finally:
                process.send_signal(signal.SIGKILL if process.poll() is None else 0)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[dict[str, Any], bytes]:
        """Status and headers of an answer, and its body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            named = {name: plain(answer.headers[name]) for name in HEADERS if name in answer.headers}
            return {"status": answer.status, **named}, answer.read()
        finally:
            connection.close()


def plain(text: str) -> str:
    """Without what differs from run to run."""
    text = without_versions(text)
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def read(answer: tuple[dict[str, Any], bytes]) -> Any:
    return json.loads(answer[1])


class Log:
    """Answers by what was asked, values and words."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.words: dict[str, Any] = {}

    def add(self, name: str, answer: tuple[dict[str, Any], bytes]) -> tuple[dict[str, Any], bytes]:
        head, body = answer
        values, words = head, {}
        if "json" in head.get("content-type", ""):
            document, words = separate(json.loads(plain(body.decode())))
            values = {**head, "json": document}
        self.values[name] = values
        self.words[name] = words
        return answer

    def compare(self, name: str) -> None:
        compare("serve", name, self.values)
        compare("serve", name, self.words, words=True)


def test_a_bundle_from_upload_to_deletion(tmp_path: Path) -> None:
    """PUT, the job, the case, its reports, the list, a comparison, keeping and deleting it."""
    shop, noisy = pack(FIXTURES / "stories/redis-shop-ubuntu/bundle", tmp_path / "shop.tar"), noise(tmp_path / "noise")
    light = pack(FIXTURES / "healthy/light-load/bundle", tmp_path / "light.tar")
    log = Log()
    with Server(tmp_path / "data", "--workers", "1").running() as server:
        put = log.add("PUT shop", server.ask("PUT", "/api/v1/bundles/shop.tar?wait=1", shop.read_bytes()))
        job, case = read(put)["job"], read(put)["case"]
        other = read(log.add("PUT light", server.ask("PUT", "/api/v1/bundles/light?wait=1", light.read_bytes())))[
            "case"
        ]
        log.add("PUT again", server.ask("PUT", "/api/v1/bundles/again.tar?wait=1", shop.read_bytes()))
        log.add("PUT noise", server.ask("PUT", "/api/v1/bundles/noise?wait=1", noisy.read_bytes()))
        log.add("PUT gate", server.ask("PUT", "/api/v1/bundles/shop.tar?wait=1&fail-on=high", shop.read_bytes()))
        log.add("GET job", server.ask("GET", f"/api/v1/jobs/{job}"))
        log.add("GET events", server.ask("GET", f"/api/v1/jobs/{job}/events"))
        for path in ("/api/v1/cases", "/api/v1/cases?verdict=found", "/api/v1/cases?limit=0", f"/api/v1/cases/{case}",
                     "/api/v1/openapi.json", "/healthz", "/api/v1/jobs/" + "0" * 32):  # fmt: skip
            log.add(f"GET {plain(path)}", server.ask("GET", path))
        for form in REPORTS:
            log.add(f"GET report.{form}", server.ask("GET", f"/api/v1/cases/{case}/report.{form}"))
        for form in ("json", "txt", "html"):
            path = f"/api/v1/compare/{form}?before={case}&after={other}"
            log.add(f"compare {form}", server.ask("GET", path))
        for path in PAGES:
            log.add(path, server.ask("GET", path.format(case=case, other=other)))
        compare("serve", "report", _same_as_the_command(server, case, tmp_path))
        compare("serve", "metrics", _metrics(server))
        for method, path in (("PUT", f"{case}/kept"), ("DELETE", f"{case}/kept"), ("DELETE", case), ("GET", case),
                             ("DELETE", case), ("POST", case)):  # fmt: skip
            log.add(f"{method} {plain(path)} after", server.ask(method, f"/api/v1/cases/{path}"))
        log.add("deleted list", server.ask("GET", "/api/v1/cases"))
    log.compare("bundle")


def _same_as_the_command(server: Server, case: str, folder: Path) -> dict[str, bool]:
    """The report of the server is what the command says of the same bundle."""
    analyzed = run_command("analyze", folder / "shop.tar", "-f", "json").document
    served = read(server.ask("GET", f"/api/v1/cases/{case}/report.json"))
    page = server.ask("GET", f"/api/v1/cases/{case}/report.html")[1].decode()
    text = visible_text(page)
    return {
        "same findings": analyzed["findings"] == served["findings"],
        "same keys": sorted(analyzed) == sorted(served),
        "figures": describe_report(text, served)["figures"] != [],
    }


def _metrics(server: Server) -> list[str]:
    text = server.ask("GET", "/metrics")[1].decode()
    return sorted({line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")})


def test_nobody_comes_in_without_a_token(tmp_path: Path) -> None:
    """With tokens: who has none, who has a wrong one, who has one for something else."""
    data, log = tmp_path / "data", Log()
    tokens = {scope: run_command("serve", "token", "create", "ci", "--scope", scope, "--data", data).out.split()[-1]
              for scope in ("upload", "read", "admin")}  # fmt: skip
    with Server(data, "--access", "tokens").running() as server:
        for scope, secret in {**tokens, "wrong": "thpdiag_nobody_0", "none": ""}.items():
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            for method, path in (
                ("GET", "/"), ("GET", "/cases"), ("GET", "/api/v1/cases"), ("GET", "/metrics"), ("GET", "/healthz"),
                ("GET", "/api/v1/openapi.json"), ("GET", "/tokens"), ("PUT", "/api/v1/bundles/x"),
                ("DELETE", "/api/v1/cases/" + "0" * 32), ("POST", "/cases/" + "0" * 32 + "/delete"),
            ):  # fmt: skip
                answer = server.ask(method, path, b"" if method in ("PUT", "POST") else None, **headers)
                log.add(f"{scope}: {method} {path}", answer)
        listed = run_command("serve", "token", "list", "--data", data)
    compare("serve", "tokens", {"list": listed.code, "rows": len(listed.out.splitlines())})
    log.compare("tokens asked")
