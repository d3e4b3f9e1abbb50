"""The cost of the sandbox per bundle, and the choice of a process pool.

    python bench/guard.py [--count 40] [--rounds 5] [BUNDLE...]

Variants, each in a process of its own, in turn: a loop over `analyze` in one process; the same with each bundle in a
sandboxed child; a pool of one or two processes from a fork server, which sandbox; the pool of a triage. Prints wall and
CPU milliseconds per bundle. Then 300 tasks of which every tenth kills its process: how many of the others returned, and
how many deaths were named.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from guarded_bundle import document, in_guard, nothing, small_in_guard

from thpdiag.sandbox.confine import adopt_orphans
from thpdiag.sandbox.preload import WorkerPool, fork_server_context, freeze_memory

STORIES = Path(__file__).parents[1] / "fixtures/stories"
TASKS = 300


def loop(call: Callable[[Path], object], paths: Sequence[Path]) -> float:
    """Return seconds for all, one after the other."""
    freeze_memory()
    begun = time.perf_counter()
    for path in paths:
        call(path)
    return time.perf_counter() - begun


def executor(workers: int, paths: Sequence[Path]) -> float:
    """Return the same in a pool, without its start."""
    context = fork_server_context(["guarded_bundle"])
    with ProcessPoolExecutor(workers, mp_context=context, initializer=freeze_memory) as pool:
        list(pool.map(nothing, range(workers)))
        begun = time.perf_counter()
        list(pool.map(in_guard, paths))
        return time.perf_counter() - begun


def pool(workers: int, paths: Sequence[Path]) -> float:
    """Return the same in the pool of a triage."""
    with WorkerPool(workers, calls, ["guarded_bundle"]) as processes:
        for first in [processes.submit(partial(nothing, number)) for number in range(workers)]:
            first.result()
        begun = time.perf_counter()
        for future in [processes.submit(partial(in_guard, path)) for path in paths]:
            future.result()
        return time.perf_counter() - begun


def calls() -> Callable[[Callable[[], object]], object]:
    """Run in a process of the pool: a message is a call."""
    freeze_memory()
    return lambda call: call()


WAYS: dict[str, Callable[[Sequence[Path]], float]] = {
    "loop": partial(loop, document),
    "loop, guarded": partial(loop, in_guard),
    "executor of 1, guarded": partial(executor, 1),
    "executor of 2, guarded": partial(executor, 2),
    "pool of 1, guarded": partial(pool, 1),
    "pool of 2, guarded": partial(pool, 2),
}


def with_deaths(name: str) -> str:
    """Return the outcome of tasks of which every tenth kills its process."""
    begun = time.perf_counter()
    if name == "executor of 2, guarded":
        with ProcessPoolExecutor(2, mp_context=fork_server_context(["guarded_bundle"])) as pool:
            found = list(pool.map(small_in_guard, range(TASKS)))
    else:
        with WorkerPool(2, calls, ["guarded_bundle"]) as processes:
            futures = [processes.submit(partial(small_in_guard, n)) for n in range(TASKS)]
            found = [str(f.result()) if f.exception() is None else type(f.exception()).__name__ for f in futures]
    seconds = time.perf_counter() - begun
    named = [word for word in found if word in ("signal 9", "WorkerDiedError")]
    return f"{len(found) - len(named)} came back, {len(named)} named, {seconds:.2f} s"


def cost(name: str, count: int, paths: Sequence[Path]) -> tuple[float, float]:
    """Return wall and CPU seconds of a variant without its start, for all processes: this one adopts them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        [sys.executable, __file__, "--way", name, "--count", str(count), *map(str, paths)], stdout=subprocess.PIPE
    ) as child:
        out, _ = child.communicate()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        sys.exit(f"{name} left with {child.returncode}")
    return float(out), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one(name: str, paths: Sequence[Path], count: int) -> None:
    """Run a variant in this process."""
    print(WAYS[name]([paths[number % len(paths)] for number in range(count)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way")
    given = parser.parse_args()
    paths = given.paths or sorted(STORIES.glob("*/bundle"))
    if given.way:
        one(given.way, paths, given.count)
        return
    adopt_orphans()
    names = list(WAYS)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(given.rounds):
        for name in names:
            wall, cpu = cost(name, given.count, paths)
            _, start = cost(name, 0, paths)
            found[name].append((wall / given.count * 1000, (cpu - start) / given.count * 1000))
    for name, costs in found.items():
        wall, cpu = (statistics.median(column) for column in zip(*costs, strict=True))
        least, least_cpu = (min(column) for column in zip(*costs, strict=True))
        print(f"{name}: {wall:.1f} ms wall, {cpu:.1f} ms CPU per bundle; least {least:.1f} and {least_cpu:.1f}")
    for name in names:
        if "of 2" in name:
            print(f"{name}: of {TASKS}, {with_deaths(name)}")


if __name__ == "__main__":
    main()
