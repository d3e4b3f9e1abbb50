"""The cost of the page of a fleet: bytes, seconds, memory, the first paint, and the latency of the search.

Makes a store of synthetic hosts (`fleet_of_hosts.py`), then:

- writes the page, in a process of its own each time: wall and CPU seconds, the peak of memory, bytes; the bars are 20 s
  and 20 MB. The same with a tenth of the hosts, and with two nights of all, tells how memory grows;
- opens it in Chromium: the first contentful paint beside that of a page of the same size with one letter, and the CPU
  milliseconds of the browser's main thread from a letter in the search to the rows on the screen, the largest of a
  word typed and taken back; the bar is 100. Needs playwright (THPDIAG_CHROMIUM names another browser).

    python bench/fleet.py [--hosts 10000] [--runs 3] [--pairs 5] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from cost import Cost, cost
from fleet_of_hosts import results
from page import painted

from thpdiag.fleet.overview import Fleet
from thpdiag.fleet.page import write_page
from thpdiag.report.baseline import Judge
from thpdiag.report.presentation import NEVER
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis
from thpdiag.store.store import Store

ANALYSIS = Analysis("1", "0123456789abcdef")
SECONDS, MOST, LETTER = 20.0, 20_000_000, 100.0
WORDS = ("r", "re", "red", "redi", "redis", "redi", "red", "re", "r", "", "w", "we", "web", "web00", "")
TYPED = """(words) => {
  const box = document.querySelector("input[type=search]");
  box.value = words;
  box.dispatchEvent(new Event("input"));
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hosts", type=int, default=10_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--folder", type=Path, help="where to make the stores (default: in memory, if there is room)")
    options.add_argument("--write", type=Path, nargs=2, metavar=("STORE", "PAGE"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.write:
        write(*given.write)
        return
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=given.folder or (quick if quick.is_dir() else None)) as folder:
        missed = measured(Path(folder), given.hosts, given.runs)
        missed |= browsed(Path(folder) / "page.html", given.pairs)
    sys.exit(missed)


def write(store: Path, page: Path) -> None:
    with StoreReader.at(store) as reading, page.open("w", encoding="utf-8") as out:
        fleet = Fleet(reading, Judge([], date.min, {}), NEVER)
        fleet.page = lambda row: f"hosts/{row['sha256'][:16]}.html" if row["rule"] else ""
        write_page(fleet, out)


def measured(folder: Path, hosts: int, runs: int) -> bool:
    """Return whether the page of all hosts takes too long or is too large."""
    page = folder / "page.html"
    for count, nights in ((hosts // 10, 1), (hosts, 2), (hosts, 1)):
        store = folder / f"{count}-{nights}"
        with Store.open(store, ANALYSIS) as made:
            for night in range(nights):
                for one in results(count, night):
                    made.add(one)
        costs = [cost([sys.executable, __file__, "--write", str(store), str(page)]) for _ in range(runs)]
        told(count * nights, nights, costs, page.stat().st_size)
    return min(one.wall for one in costs) > SECONDS or page.stat().st_size > MOST


def told(bundles: int, nights: int, costs: list[Cost], size: int) -> None:
    wall, cpu = (statistics.median(getattr(one, name) for one in costs) for name in ("wall", "cpu"))
    print(
        f"{bundles} bundles, nights: {nights}: {wall:.1f} s (bar {SECONDS:.0f}), {cpu:.1f} s CPU, "
        f"{size / 1e6:.1f} MB (bar {MOST / 1e6:.0f}), peak {max(one.peak for one in costs):.0f} MB",
        flush=True,
    )


def browsed(page: Path, pairs: int) -> bool:
    """Return whether a letter in the search takes too long."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("THPDIAG_CHROMIUM") or shutil.which("chromium")
    empty = page.with_name("empty.html")
    empty.write_text(f"<!DOCTYPE html><title>empty</title><p>.</p><!--{'x' * (page.stat().st_size - 60)}-->")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        paints = [[painted(browser, file) for file in (page, empty)] for _ in range(pairs + 1)][1:]
        spent = searched(browser, page)
        browser.close()
    ours, peer = (statistics.median(pair[side] for pair in paints) for side in (0, 1))
    print(f"first paint {ours:.0f} ms, of an empty page of its size {peer:.0f} ms")
    print(f"a letter in the search: {statistics.median(spent):.0f} ms CPU, at most {max(spent):.0f} (bar {LETTER:.0f})")
    return max(spent) > LETTER


def searched(browser: Any, file: Path) -> list[float]:
    """Return CPU milliseconds of the main thread for each change of the words."""
    shown = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
    shown.goto(file.as_uri())
    session = shown.context.new_cdp_session(shown)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        figures = session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(float(one["value"]) for one in figures if one["name"] == "TaskDuration")

    found = []
    for words in WORDS:
        before = spent()
        shown.evaluate(TYPED, words)
        found.append(spent() - before)
    return found


if __name__ == "__main__":
    main()
