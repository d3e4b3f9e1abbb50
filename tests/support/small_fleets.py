"""Small fleets for tests of their page: stores of hand-made results, and the page of each."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import lxml.html

from small_results import ANALYSIS, content
from thpdiag.fleet.overview import Fleet
from thpdiag.fleet.page import write_page
from thpdiag.model.result import SCHEMA
from thpdiag.report.baseline import Judge, parse_suppressions
from thpdiag.report.presentation import NEVER
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis, BundleResult
from thpdiag.store.store import Store

GRADES = ("critical", "high", "medium", "low", "info")
WELL = "No huge-page problem: all known huge-page problems were checked; none was found."


def found(severity: str, **more: Any) -> dict[str, Any]:
    """Return a verdict with a finding."""
    return {
        "status": "found", "rule": "THP-010", "mechanism": "fault-compaction", "severity": severity,
        "confidence": "likely", "state": "present", "sentence": "Page faults compact memory themselves.", **more,
    }  # fmt: skip


def said(status: str) -> dict[str, Any]:
    """Return a verdict without a finding."""
    return {"status": status, "sentence": WELL if status == "nothing_found" else "Inconclusive."}


def host(name: str, verdict: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a result document of one host; `host` of `more` is added to its facts."""
    known = {"name": name, "kernel": "6.1.0-28-amd64", "os": "Debian GNU/Linux 12", "platform": "debian12",
             "era": "E7", "apps": ["redis"], **more.pop("host", {})}  # fmt: skip
    findings = [{**verdict, "fingerprint": content(0)[:16]}] if verdict["status"] == "found" else []
    return {"schema": SCHEMA, "case": name, "verdict": verdict, "findings": findings, "host": known, **more}


def bundle(number: int, document: dict[str, Any] | None = None, **more: Any) -> BundleResult:
    """Return the result of a bundle, by default `ok` if it has a document."""
    status = "timeout" if document is None else "ok"
    path = f"nightly/{number}.tar"
    return BundleResult(content(number), **{"path": path, "size": 1, "status": status, "document": document, **more})


def store(folder: Path, bundles: Iterable[BundleResult], analysis: Analysis = ANALYSIS) -> Path:
    with Store.open(folder, analysis) as made:
        for one in bundles:
            made.add(one)
    return folder


def page(folder: Path, page: Callable[[Any], str] = lambda row: "", known: str = "") -> str:
    """Return the page of the store in a folder; `page` gives addresses of host pages, `known` is a suppression file."""
    out, judge = io.StringIO(), Judge(parse_suppressions("known.yaml", known) if known else [], date(2027, 1, 1), {})
    with StoreReader.at(folder) as reading:
        write_page(Fleet(reading, judge, NEVER, page), out)
    return out.getvalue()


def page_of(folder: Path, bundles: Iterable[BundleResult], **more: Any) -> str:
    return page(store(folder, bundles), **more)


def many(hosts: int) -> list[BundleResult]:
    """Return hosts of which every tenth has a finding and every hundredth bundle failed; on 2 % huge pages are off."""
    made = []
    for number in range(hosts):
        if number % 100 == 99:
            made.append(bundle(number, reason="it took longer than 600 s", attempts=2))
            continue
        verdict = found(GRADES[number % 50 // 10]) if number % 10 == 0 else said("nothing_found")
        settings = {"thp.enabled": {"value": "never" if number % 50 == 1 else "always", "provenance": "measured"}}
        stalls = 400.0 if number % 50 == 2 else random.Random(number).uniform(1, 2)
        known = {
            "kernel": f"6.1.{number % 7}", "apps": ["redis", "jvm"][: number % 3],
            "settings": settings, "measures": {"node_vmstat_compact_stall": {"value": stalls, "unit": "1/s"}},
        }  # fmt: skip
        made.append(bundle(number, host(f"web{number}", verdict, host=known)))
    return made


def read(html: str) -> Any:
    """Parse the page with a parser that knows optional end tags."""
    return lxml.html.fromstring(html)


def texts(tree: Any, path: str) -> list[str]:
    """Return the text of the elements at an XPath."""
    return [" ".join(one.text_content().split()) for one in tree.xpath(path)]


def rows(tree: Any, table: str) -> list[list[str]]:
    """Return the cells of all rows of a long table."""
    found = tree.xpath(f"//*[@id='{table}']//tbody/tr")
    return [[" ".join(cell.text_content().split()) for cell in row] for row in found]
