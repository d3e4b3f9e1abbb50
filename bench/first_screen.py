"""The first impression of a report: lines of text, line of the first command, printed pages, words of the folded page.

For the five public accounts, a large capture, and further inputs named on the command line. The page is opened in
Chromium without a click (THPDIAG_CHROMIUM names another than that of the path): its words are those visible while
details are closed, its pages those of A4 paper. The bars: 60 lines, 14 for the first command, 8 pages. Exits with 1 if
one is exceeded.

    python bench/first_screen.py [INPUT ...]
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.host.options import Options
from thpdiag.pipeline import analyze
from thpdiag.report.html import render as render_page
from thpdiag.report.text import render as render_text

FIXTURES = Path(__file__).parents[1] / "fixtures"
STORIES = ("hadoop-centos62", "voltdb-rhel66-kvm", "bioinformatics-ubuntu1404", "redis-shop-ubuntu", "mero-centos7")
INPUTS = [*(FIXTURES / "stories" / name for name in STORIES), FIXTURES / "captures" / "alloc-churn"]
MAX_LINES, MAX_COMMAND_LINE, MAX_PAGES = 60, 14, 8
BROWSERS = ("chromium", "chromium-headless-shell", "google-chrome")
PDF_PAGE = re.compile(rb"/Type\s*/Page\b")


class Figures(NamedTuple):
    """The figures of one input; lines are counted from 1, 0 is a text without a command."""

    lines: int
    command_line: int
    pages: int
    words: int

    @property
    def missed(self) -> bool:
        return self.lines > MAX_LINES or self.command_line > MAX_COMMAND_LINE or self.pages > MAX_PAGES


def main() -> None:
    from playwright.sync_api import sync_playwright

    rules = load_rules([builtin_rules()])
    program = os.environ.get("THPDIAG_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    missed = False
    print("| input | lines of the text | line of the first command | printed pages | words, folded |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        for path in [*INPUTS, *map(Path, sys.argv[1:])]:
            figures = measure(analyze([path], rules, Options()), browser, Path(folder) / "page.html")
            print(f"| {path.name} | {figures.lines} | {figures.command_line} | {figures.pages} | {figures.words:,} |")
            missed |= figures.missed
        browser.close()
    sys.exit(missed)


def measure(document: dict[str, Any], browser: Any, file: Path) -> Figures:
    """Return the figures of a result."""
    lines = render_text(document).splitlines()
    command_line = next((at for at, line in enumerate(lines, 1) if line.startswith("Do now:")), 0)
    file.write_text(render_page(document), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri())
    page.wait_for_load_state("load")
    words = len(page.inner_text("body").split())
    printed = page.pdf(format="A4")
    page.close()
    return Figures(len(lines), command_line, len(PDF_PAGE.findall(printed)), words)


if __name__ == "__main__":
    main()
