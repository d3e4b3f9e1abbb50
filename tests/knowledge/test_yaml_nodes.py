"""YAML of strangers: bombs are refused before anything is built, mistakes have a place, words stay words."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thpdiag.knowledge.yaml_nodes import (
    Place,
    Strict,
    UnusualYamlError,
    YamlError,
    load,
    load_nodes,
    load_own,
    load_plain,
    load_with_places,
)

LAUGHS = "a: &a [x,x]\n" + "".join(f"{c}: &{c} [*{p},*{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True))
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{c}: &{c}\n  <<: [*{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LAUGHS, "aliases and anchors"), (MERGES, "aliases and anchors"), ("a: {<<: {b: 1}}", "merge keys"),
        ("[" * 50_000, "nested too deep"),
        ("{a: " * 60 + "1" + "}" * 60, "nested too deep"), ("- " * 2000, "nested too deep"), ("a: 1\na: 2",
        "duplicate key"), ("a: !!python/object:os.system x", ""),
        ("x: [" + "1," * 150_000 + "]", "nested too deep or too large"), ("a: " + "b" * (1 << 20),
        "larger than 1 MiB"), ("a: [1", ""), ("\x00", ""),
        ("a: 'x", ""), ("\tb: 1", ""), ("a: b: c", ""), ("%YAML 9.9\n---\na", ""), ("? [a]\n: b", ""), ("--- a\n--- b",
        ""), ("*a", ""),
    ],
)  # fmt: skip
def test_hostile_yaml_is_refused(text: str, says: str) -> None:
    """One kind of error for all of it, in time and memory that do not grow with what it stands for."""
    with pytest.raises(YamlError, match=says or None):
        load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes", "yes"), ("a: on", "on"), ("a: never", "never"), ("a: 12:30", "12:30"), ("a: 1_000", "1_000"),
        ("a: 0x10", "0x10"), ("a: 010", "010"),
        ("a: 1.5", 1.5), ("a: true", True), ("a: ~", None), ("a:", None), ("a: 2026-11-20", "2026-11-20"), ("a: '1'",
        "1"), ("a: 30 %", "30 %"), ("a: =", "="),
        ("a: .inf", ".inf"), ("a: 1e3", "1e3"), ("a: [1, 2]", [1, 2]), ("a: {}", {}), ("a: |\n  x\n  y", "x\ny"),
    ],
)  # fmt: skip
def test_words_stay_words(text: str, value: object) -> None:
    """What YAML 1.1 would turn into booleans, dates and minutes is the word that stands there."""
    assert load(text) == {"a": value}


def test_places_are_those_of_the_keys() -> None:
    """Line and column from 1, of keys and of items."""
    data, places = load_with_places("a: 1\nb:\n  - x\n  - {c: 2}\n")
    assert data == {"a": 1, "b": ["x", {"c": 2}]}
    assert places["a",] == Place(1, 1)
    assert places["b", 1, "c"] == Place(4, 6)


def test_an_error_has_its_place() -> None:
    """The second of two equal keys, and the line of broken syntax."""
    with pytest.raises(YamlError) as twice:
        load("a: 1\nb: 2\na: 3\n")
    assert twice.value.place == Place(3, 1)
    with pytest.raises(YamlError) as broken:
        load("a: 1\nb: [1\n")
    assert broken.value.place is not None


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(st.one_of(st.text(max_size=80), st.text(alphabet="ab: -[]{},&*!|>'\"#%@`\n\t?<", max_size=60)))
def test_any_text_is_data_or_an_error(text: str) -> None:
    """No other exception comes out."""
    try:
        said = repr(load(text))
    except YamlError as error:
        said = str(error)
    assert said


USUAL = """\
id: ACME-01  # a comment
title: 'it''s "quoted"'
checks:
  busy: {series: cpu_ratio.sys_total, above: 30 %, for: 30 s}
  "many": {fact: a.b, one_of: [1, -2.5, +3, .5, true, null, ~, yes, 012, 1e3, é]}
  empty:
means: >-
  folded
  text: with a colon

  and a paragraph
notes: |+
  a block
   indented
none: {}
list:
- a - b
-
  - c: d
"""


@settings(derandomize=True, deadline=None, database=None, max_examples=300)
@given(
    st.one_of(
        st.builds(
            lambda at, end, put: USUAL[:at] + put + USUAL[end:],
            *2 * [st.integers(0, len(USUAL))],
            st.text(alphabet="ab1: -[]{},&*!|>'\"#%@`\n\t?<~.+é\x85\u2028\ufeff", max_size=6),
        ),
        st.text(alphabet="ab1: -[]{},&*!|>'\"#%@`\n?<~.+", max_size=30),
    )
)
@example(USUAL)
@example("|#")
@example("[a?b]")
@example("a:\tb")
def test_what_is_read_quickly_is_read_alike(text: str) -> None:
    """PyYAML's own scanner says the same, or the text is left to it."""
    try:
        quick = load_plain(text)
    except UnusualYamlError:
        return
    assert repr(quick) == repr(load_nodes(text, Strict)[0])


def test_a_usual_text_is_read_quickly() -> None:
    """Words are of the types that YAML 1.2's core schema gives them."""
    wanted = [1, -2.5, 3, 0.5, True, None, None, "yes", "012", "1e3", "é"]
    assert load_plain(USUAL)["checks"]["many"]["one_of"] == wanted


@pytest.mark.parametrize("read", [load_own, load_with_places])
def test_nothing_of_a_text_is_remembered(read: Callable[[str], object]) -> None:
    """A server reads files again and again; what PyYAML made of one ends with the reading."""

    def alive() -> int:
        gc.collect()
        return sum(isinstance(one, yaml.ScalarNode) for one in gc.get_objects())

    before = alive()
    read("a: [word, 2, 3.5, true, null]\n")
    assert alive() == before
