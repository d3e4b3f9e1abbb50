"""What does not come to its end is ended, and named: a reader, whose neighbours stay, and the rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from command_line import ROOT
from thpdiag.bundle import Limits
from thpdiag.engine import evaluate
from thpdiag.engine.check_result import CheckResult
from thpdiag.engine.load import rule_set
from thpdiag.host import reading
from thpdiag.host.options import Options
from thpdiag.model import Fact, Record
from thpdiag.model.parser import BulkParser, Content, Source
from thpdiag.pipeline import analyze

MARK = b"ENDLESS"


def again_and_again(source: Source, _content: Content) -> Iterator[Record]:
    while True:
        yield Fact("host.name", "node1", source.cite(1))


def reads_nothing(source: Source, _content: Content) -> Iterator[Record]:
    yield Fact("host.name", "node1", source.cite(1))
    while True:
        pass


class Endless(NamedTuple):
    """A format as it is known before its module is imported."""

    parser: BulkParser

    def claims(self, _path: str, head: bytes, _size: int | None) -> bool:
        return head.startswith(MARK)

    def load(self) -> BulkParser:
        return self.parser


@pytest.mark.parametrize(
    ("read", "kind", "text"),
    [
        (again_and_again, "bug", "parser endless does not advance"),
        (reads_nothing, "limit", "needs more time than there is for reader endless"),
    ],
)
def test_a_reader_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: object, kind: str, text: str
) -> None:
    """It yields for ever, or never again."""
    parser = BulkParser("endless", "Endless", None, read)  # type: ignore[arg-type]
    monkeypatch.setattr(reading, "bulk_formats", lambda: (Endless(parser),))
    (tmp_path / "a.txt").write_bytes(MARK)
    (tmp_path / "meminfo").write_text("MemTotal:       16384000 kB\nMemFree:         1000000 kB\n")
    document = analyze(
        [tmp_path / "a.txt", tmp_path / "meminfo"], rule_set(()), Options(limits=Limits(cpu_seconds=0.5))
    )
    problem = next(one for one in document["problems"] if one["member"] == "a.txt")
    assert problem["kind"] == kind
    assert text in problem["text"]
    assert problem["hides"]


def test_rules_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is decided, the problem says why, what was read stays, and the page says that nobody can tell."""

    def judge(*_arguments: object) -> CheckResult:
        while True:
            pass

    monkeypatch.setattr(evaluate, "judge", judge)
    options = Options(limits=Limits(cpu_seconds=0.5))
    document = analyze([ROOT / "fixtures/stories/hadoop-centos62/bundle"], rule_set(()), options)
    assert [(p["kind"], p["text"]) for p in document["problems"] if p["member"] == "input"] == [
        ("limit", "judging it took more than 0.5 s of CPU (limit cpu_seconds); no rule was decided")
    ]
    assert document["verdict"]["status"] == "cannot_tell"
    assert {rule["outcome"] for rule in document["rules"]} == {"unknown"}
    assert document["host"]["kernel"] == "2.6.32-220.7.1.el6.x86_64"
