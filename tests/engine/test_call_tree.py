"""The tree of calls: small branches are counted to their callers, nothing is lost, and it stays small."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from thpdiag.engine.compiled_profile import CompiledProfile
from thpdiag.engine.profile_views import MAX_NODES, MIN_NODE_SHARE, SMALL_TASKS, call_tree, frame_label
from thpdiag.model import Citation, Frame, Ledger, Profile, StackCounts, Stacks, Task

Stack = tuple[str, ...]  # task, then functions root first
ROOM = 1_000_000


def profile(weights: Mapping[Stack, float], unlisted: float = 0.0) -> CompiledProfile:
    """Functions by their names; `[x]` is a function without a name in the object /lib/x."""
    counts, numbers = StackCounts(), dict[str, int]()
    for (task, *functions), weight in weights.items():
        chain = [numbers.setdefault(name, len(numbers)) for name in reversed(functions)]
        counts.add(chain, weight, int(weight), Citation("p.txt", 1), Task(task, 1, 1))
    frames = tuple(
        Frame("[unknown]", f"/lib/{name[1:-1]}") if name[0] == "[" else Frame(name, kernel=True) for name in numbers
    )
    columns = (counts.chains(), counts.tasks(), counts.rows())
    return CompiledProfile(
        Profile("folded", "cycles", frames, *columns, Stacks.FULL, Citation("p.txt"), Ledger(unlisted=unlisted))
    )


def plainly(weights: Mapping[Stack, float]) -> dict[str, float]:
    """The same tree, stack by stack."""
    total, nodes = sum(weights.values()), Counter[Stack]()
    for stack, weight in weights.items():
        for depth in range(1, len(stack) + 1):
            nodes[stack[:depth]] += weight  # type: ignore[assignment]
    own = Counter[str]()
    for stack, weight in weights.items():
        while stack and nodes[stack] < MIN_NODE_SHARE * total:
            stack = stack[:-1]
        own[";".join(stack) or SMALL_TASKS] += weight  # type: ignore[assignment]
    return {path: weight / total for path, weight in own.items()}


def random_stacks(seed: int, count: int, names: Sequence[str] = "abcd") -> dict[Stack, float]:
    rng = random.Random(seed)
    return {
        (rng.choice("xyz"), *(rng.choice(names) for _ in range(rng.randint(0, 8)))): 10 ** rng.uniform(0, 5)
        for _ in range(count)
    }


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_tree_that_one_would_make_stack_by_stack(seed: int) -> None:
    """Thousands of random stacks."""
    weights = random_stacks(seed, 3000)
    tree = call_tree(profile(weights), ROOM)
    assert tree.least == MIN_NODE_SHARE
    assert 0.05 < tree.folded < 0.95
    assert dict(tree.stacks) == pytest.approx(plainly(weights))
    assert sum(share for _, share in tree.stacks) == pytest.approx(1.0)


def test_what_was_folded_is_said() -> None:
    """The share of samples that are not shown to their innermost function."""
    small: dict[Stack, float] = {("java", "main", f"leaf{i}"): 1.0 for i in range(1000)}
    tree = call_tree(profile({("java", "main", "work"): 9000.0, **small}), ROOM)
    assert tree.stacks == (("java;main;work", 0.9), ("java;main", 0.1))
    assert (tree.least, tree.folded) == (MIN_NODE_SHARE, 0.1)


def test_tasks_that_are_too_small_are_one() -> None:
    """A thousand short-lived processes have a name together."""
    small: dict[Stack, float] = {(f"sh{i}", "main"): 1.0 for i in range(1000)}
    tree = call_tree(profile({("java", "main"): 9000.0, **small}), ROOM)
    assert tree.stacks == (("java;main", 0.9), (SMALL_TASKS, 0.1))


def test_a_wide_tree_keeps_so_many_nodes() -> None:
    """Where more are large enough, the limit rises, and the sum stays."""
    weights = {("java", *(f"{depth}of{i}" for depth in range(20))): 1.0 for i in range(1000)}
    tree = call_tree(profile(weights), ROOM)
    nodes = {path[:end] for path, _ in tree.stacks for end in range(len(path)) if path[end] == ";"}
    assert len(nodes) <= MAX_NODES
    assert sum(share for _, share in tree.stacks) == pytest.approx(1.0)
    assert tree.least > MIN_NODE_SHARE
    assert tree.folded == pytest.approx(1.0)


def test_the_text_is_no_longer_than_asked_for() -> None:
    """A document has only so much room."""
    tree = call_tree(profile(random_stacks(1, 3000)), 500)
    assert 0 < sum(len(path) for path, _ in tree.stacks) <= 500
    assert sum(share for _, share in tree.stacks) == pytest.approx(1.0)


def test_shares_are_of_all_that_the_source_has() -> None:
    """What a table of percentages does not list is in the sum."""
    tree = call_tree(profile({("java", "main"): 60.0}, unlisted=40.0), ROOM)
    assert tree.stacks == (("java;main", 0.6),)


def test_a_profile_without_weight_has_no_tree() -> None:
    """Nothing was sampled, or all was idle."""
    assert call_tree(profile({("swapper", "default_idle"): 60.0}), ROOM).stacks == ()


def test_functions_without_names_are_one_for_each_object() -> None:
    """Calls within an object whose functions have no names; a named caller between them stays."""
    stack = ("java", "main", "[libc.so]", "[libc.so]", "callback", "[libc.so]", "[libm.so]")
    assert call_tree(profile({stack: 1.0}), ROOM).stacks == (("java;main;[libc.so];callback;[libc.so];[libm.so]", 1.0),)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Frame("a;b"), "a:b"),
        (Frame("[unknown]"), "[unknown]"),
        (Frame("[unknown]", "[unknown]"), "[unknown]"),
        (Frame("[unknown]", "[kernel.kallsyms]", kernel=True), "[kernel.kallsyms]"),
        (Frame("[unknown]", "/usr/lib/libc.so.6"), "[libc.so.6]"),
        (Frame("[unknown]", "/opt/a;b (deleted)"), "[a:b]"),
        (Frame("main", "/opt/app"), "main"),
    ],
)
def test_a_function_is_named_for_reading(frame: Frame, expected: str) -> None:
    """Its name, else the object's; never with the sign between functions."""
    assert frame_label(frame) == expected
