"""The cost of the page of a large bundle: bytes, CPU seconds of rendering, and the first paint in Chromium.

Makes a bundle: the text of a recording with 2,000 different frames, few of them large and many small, and ten series of
a day of seconds (vmstat -t, and a shell loop over /proc/vmstat and /proc/meminfo). It is analysed once. Then, in turn
with what each is compared to:

- rendering the page from the result, beside packing the result's JSON with gzip (level 9), of which the page needs one
  already: CPU seconds, the least of the runs; the bar is 0.1 s;
- the first contentful paint of the page, beside a page of the same size that shows one letter: the median of the pairs,
  which must be many, since a browser paints at fixed moments only; the bar is 2. Needs playwright and Chromium
  (THPDIAG_CHROMIUM names another than that of the path).

The bars for bytes are 400 KB, 120 KB with gzip; and 300 MB for a thousand pages like those of the fixtures.

    python bench/page.py [--runs 15] [--pairs 81]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.host.options import Options
from thpdiag.pipeline import analyze
from thpdiag.report.html import render

RULES = load_rules([builtin_rules()])
SECONDS = 86_400
FRAMES = 2_000
SERIES = 10
SAMPLES = 60_000
START = datetime(2026, 11, 20, tzinfo=UTC)
FIXTURES = Path(__file__).parents[1] / "fixtures"
MOST, PACKED, RENDERING, PAINT, THOUSAND = 400_000, 120_000, 0.1, 2.0, 300_000_000
COMPACTING = (
    "compact_zone", "compact_zone_order", "try_to_compact_pages", "__alloc_pages_direct_compact",
    "__alloc_pages_slowpath", "do_huge_pmd_anonymous_page", "handle_mm_fault", "page_fault",
)  # fmt: skip
FIRST_PAINT = """() => new Promise((done) => {
  const seen = () => performance.getEntriesByName("first-contentful-paint")[0];
  if (seen()) return done(seen().startTime);
  new PerformanceObserver((_, watching) => { if (seen()) { watching.disconnect(); done(seen().startTime); } })
    .observe({ type: "paint", buffered: true });
})"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=15)
    options.add_argument("--pairs", type=int, default=81)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        document = analysed(Path(folder))
    page = render(document)
    series = [one for one in document["timeline"]["series"] if one["panel"] != "call_stacks"]
    frames = page.count("<title>")
    print(f"{frames} frames and {len(series)} series of {SECONDS} points (bundle asked for {FRAMES} and {SERIES})")
    packed = len(gzip.compress(page.encode(), 6))
    missed = [told("page", len(page.encode()), MOST), told("page, packed", packed, PACKED)]
    missed.append(thousand())
    missed.append(rendering(document, chosen.runs))
    missed.append(painting(page, chosen.pairs))
    sys.exit(any(missed))


def told(what: str, size: int, bar: int) -> bool:
    print(f"{what}: {size / 1000:.2f} KB (bar {bar / 1000:.0f} KB)")
    return size > bar


def thousand() -> bool:
    """Return whether a thousand pages like those of the fixtures are too large."""
    bundles = [path for path in (FIXTURES / "stories").glob("*/bundle")] + list(
        (FIXTURES / "captures").glob("*/bundle")
    )
    sizes = [len(render(analyze([bundle], RULES, Options())).encode()) for bundle in bundles]
    whole = round(1000 * statistics.mean(sizes))
    print(f"pages of {len(sizes)} fixtures: {min(sizes) / 1000:.0f} to {max(sizes) / 1000:.0f} KB")
    return told("a thousand of them", whole, THOUSAND)


def rendering(document: dict[str, Any], runs: int) -> bool:
    text = json.dumps(document).encode()
    works: tuple[Callable[[], object], ...] = (lambda: render(document), lambda: gzip.compress(text, 9))
    found = [float("inf")] * len(works)
    for _ in range(runs):
        for number, work in enumerate(works):
            begun = time.process_time()
            work()
            found[number] = min(found[number], time.process_time() - begun)
    ours, peer = found
    print(f"rendering: {ours:.3f} s (bar {RENDERING}), packing its JSON {peer:.3f} s, ratio {ours / peer:.1f}")
    return ours > RENDERING


def painted(browser: Any, file: Path) -> float:
    """Return milliseconds to the first contentful paint, in a context of its own."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    shown = context.new_page()
    shown.goto(file.as_uri())
    at = float(shown.evaluate(FIRST_PAINT))
    context.close()
    return at


def painting(page: str, pairs: int) -> bool:
    """Return whether the first paint is too late, in a fresh context each time."""
    from playwright.sync_api import sync_playwright

    names = ("chromium-headless-shell", "chromium")
    program = os.environ.get("THPDIAG_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    empty = f"<!DOCTYPE html><title>empty</title><p>.</p><!--{'x' * (len(page.encode()) - 60)}-->"

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = []
        for name, text in (("page", page), ("empty", empty)):
            (Path(folder) / f"{name}.html").write_text(text, encoding="utf-8")
            files.append(Path(folder) / f"{name}.html")
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        found = [[painted(browser, file) for file in files] for _ in range(pairs + 1)][1:]
        browser.close()
    ratio = statistics.median(ours / peer for ours, peer in found)
    ours, peer = (statistics.median(pair[side] for pair in found) for side in (0, 1))
    least = [min(pair[side] for pair in found) for side in (0, 1)]
    print(
        f"first paint: {ours:.0f} ms, of the empty page {peer:.0f} ms, median of {pairs} pairs {ratio:.2f} "
        f"(bar {PAINT}), of the minima {least[0] / least[1]:.2f}"
    )
    return ratio > PAINT


def analysed(folder: Path) -> dict[str, Any]:
    """Return the result of the bundle."""
    (folder / "perf-script.txt").write_text("\n".join(stacks()) + "\n")
    (folder / "vmstat.txt").write_text("\n".join(rows()) + "\n")
    (folder / "counters.txt").write_text("\n".join(counters()) + "\n")
    return analyze([folder], RULES, Options())


def stacks() -> Iterator[str]:
    """Yield samples: half compact for huge pages; the others are chains of callers, the first the most frequent."""
    chance = random.Random(FRAMES)
    chains = [[f"step_{chain}_{depth}" for depth in range(10)] for chain in range(FRAMES // 10)]
    often = [1 / rank for rank in range(1, len(chains) + 1)]
    picked = chance.choices(chains, often, k=SAMPLES)
    for number in range(SAMPLES):
        chain = list(COMPACTING) if number % 2 else picked[number][: chance.randrange(8, 11)][::-1]
        yield f"worker {4000 + number % 4} [00{number % 2}] {100 + number / 500:.6f}:     250000 cpu-clock:"
        yield from (f"\tffffffff81000000 {function} ([kernel.kallsyms])" for function in chain)
        yield ""


def rows() -> Iterator[str]:
    """Yield a day of vmstat -t."""
    chance = random.Random(SECONDS)
    head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----"
    names = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC"
    for number in range(SECONDS):
        if number % 1000 == 0:
            yield from (head, names)
        system, user, wait = chance.randrange(5, 40), chance.randrange(50), chance.randrange(5)
        cpu = f"{user:2} {system:2} {100 - user - system - wait:2} {wait:2}  0"
        yield (
            f" 2  0      0 {chance.randrange(500_000, 900_000):6} 311900 400000    0    0    10    20 3000 4000 {cpu} "
            + (f"{START + timedelta(seconds=number):%Y-%m-%d %H:%M:%S}")
        )


def counters() -> Iterator[str]:
    """Yield a day of a shell loop, each second the counters of huge pages."""
    chance = random.Random(SERIES)
    names = ("compact_stall", "compact_fail", "thp_fault_alloc", "thp_fault_fallback", "thp_collapse_alloc")
    totals = dict.fromkeys(names, 1000)
    yield "[root@demo ~]# while sleep 1; do date +%s; cat /proc/vmstat; cat /proc/meminfo; done"
    for number in range(SECONDS):
        yield str(int(START.timestamp()) + number)
        for name in names:
            totals[name] += chance.randrange(300)
            yield f"{name} {totals[name]}"
        yield "MemTotal:       65000000 kB"
        yield f"MemFree:        {chance.randrange(500_000, 900_000)} kB"
        yield f"AnonHugePages:  {2048 * chance.randrange(1000, 4000)} kB"


if __name__ == "__main__":
    main()
