"""`serve --rules`: rules of a team beside those that come along, on the pages and in each analysis."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path

from command_line import ROOT
from serve_process import Running, running

RULE = "THP-114"


def asked(server: Running, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request(method, path, body)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_rules_of_further_folders_are_used(tmp_path: Path) -> None:
    """They are listed, and each result has their outcome; once their files change, analyses say so."""
    text = next(file for file in (ROOT / "rules").glob("*.yaml") if "explains" not in file.read_text()).read_text()
    folder = tmp_path / "rules"
    folder.mkdir()
    first = text.split("\n---\n")[0]
    own = first.partition("\nid: ")[2].partition("\n")[0] or first.partition("id: ")[2].partition("\n")[0]
    (folder / "team.yaml").write_text(first.replace(own, "TEAM-001") + "\n", encoding="utf-8")
    with running(tmp_path / "data", "--rules", str(folder)) as server:
        assert b"TEAM-001" in asked(server, "GET", "/rules")
        put = "/api/v1/bundles/{}?wait=1"
        answer = json.loads(asked(server, "PUT", put.format("a.txt"), b"$ uname -r\n5.14.0-1.el9.x86_64\n"))
        report = json.loads(asked(server, "GET", f"/api/v1/cases/{answer['case']}/report.json"))
        assert "TEAM-001" in {rule["id"] for rule in report["rules"]}
        (folder / "team.yaml").write_text("", encoding="utf-8")
        answer = json.loads(asked(server, "PUT", put.format("b.txt"), b"$ uname -r\n5.14.0-2.el9.x86_64\n"))
        assert "have changed since it started" in answer["reason"]
