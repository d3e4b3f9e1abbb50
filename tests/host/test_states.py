"""States and hosts: what is cut where, what never meets, and whose records are whose."""

from __future__ import annotations

from thpdiag.detect import TaggedRecord
from thpdiag.host.cases import cut_states, mark_ineffective_writes
from thpdiag.host.hosts import group_by_host
from thpdiag.model import Citation, Clock, Event, Fact, Frame, Moment, Profile, Record, Sample, StackCounts, Stacks

ENABLED = "thp.enabled"


def setting(value: str, line: int, member: str = "s.txt", provenance: str = "") -> Fact:
    return Fact(ENABLED, value, Citation(member, line), provenance=provenance)


def written(value: str, line: int, member: str = "s.txt", how: str = "prompt") -> Event:
    return Event(
        "setting_written",
        Citation(member, line),
        fields={"setting": ENABLED, "value": value, "path": "/sys", "how": how},
    )


def sample(line: int, member: str = "s.txt", seconds: float | None = None) -> Sample:
    time = None if seconds is None else Moment(seconds, Clock.UTC)
    return Sample("system", {"node_load1": 1.0}, Citation(member, line), "loadavg", time=time)


def profile(line: int, member: str = "s.txt") -> Profile:
    cite = Citation(member, line)
    counts = StackCounts()
    counts.add((0,), 1.0, 1, cite)
    columns = (counts.chains(), counts.tasks(), counts.rows())
    return Profile("perf_script", "cycles", (Frame("f"),), *columns, Stacks.FULL, cite)


def cut(*records: Record) -> list[tuple[str | None, int | None, list[int]]]:
    """Each state with anything measured in it: its setting, its place in time, the lines of its records."""
    found = cut_states(mark_ineffective_writes(records))
    return [
        (s.settings.get(ENABLED), s.order, sorted(r.cite.line or 0 for r in (*s.samples, *s.profiles)))
        for s in found
        if s.samples or s.profiles
    ]


def test_a_write_at_a_prompt_cuts() -> None:
    """What stands before it was measured under the old value."""
    assert cut(setting("always", 1), sample(2), written("never", 3), sample(4)) == [
        ("always", 0, [2]),
        ("never", 1, [4]),
    ]


def test_the_same_value_again_does_not_cut() -> None:
    """Neither written nor read."""
    assert cut(setting("never", 1), sample(2), written("never", 3), sample(4), setting("never", 5)) == [
        ("never", 0, [2, 4])
    ]


def test_a_reading_that_differs_cuts_without_a_write() -> None:
    """Somebody changed it elsewhere."""
    assert cut(setting("always", 1), sample(2), setting("never", 3), profile(4)) == [
        ("always", 0, [2]),
        ("never", 1, [4]),
    ]


def test_prose_and_failed_writes_do_not_cut() -> None:
    """Only what had an effect."""
    for how in ("prose", "failed", "sudo-redirect"):
        assert cut(setting("always", 1), sample(2), written("never", 3, how=how), sample(4)) == [("always", 0, [2, 4])]


def test_a_write_that_the_next_reading_denies_has_no_effect() -> None:
    """The value read afterwards is the old one."""
    assert cut(setting("always", 1), sample(2), written("never", 3), setting("always", 4), sample(5)) == [
        ("always", 0, [2, 5])
    ]


def test_assumed_settings_do_not_cut() -> None:
    """A boot line says what was asked for, not what is."""
    assert cut(setting("always", 1), sample(2), setting("never", 3, provenance="boot line"), sample(4)) == [
        ("always", 0, [2, 4])
    ]


def test_there_and_back_is_three_states() -> None:
    """On, off, on: the third is not the first."""
    records = (setting("always", 1), sample(2), written("never", 3), sample(4), written("always", 5), sample(6))
    assert cut(*records) == [("always", 0, [2]), ("never", 1, [4]), ("always", 2, [6])]


def test_a_recording_from_elsewhere_is_not_placed_by_guess() -> None:
    """A profile without a time, in another file than the session with the change, meets neither value."""
    found = cut(setting("always", 1), sample(2), written("never", 3), sample(4), profile(1, "perf.txt"))
    assert (None, None, [1]) in found


def test_a_recording_from_elsewhere_is_placed_by_its_time() -> None:
    """Between two samples of a state."""
    records = (
        setting("always", 1),
        sample(2, seconds=10),
        sample(3, seconds=20),
        written("never", 4),
        sample(5, seconds=30),
        sample(6, seconds=40),
    )
    found = cut(*records, sample(1, "other.txt", seconds=35))
    assert ("never", 1, [1, 5, 6]) in found


def test_nothing_is_one_empty_state() -> None:
    """Checks always have a state to run in."""
    assert [s.id for s in cut_states([])] == ["all"]


# Hosts


def reading(record: Record, speaker: str = "", host: str = "") -> TaggedRecord:
    return TaggedRecord(record, "reader", (speaker, host))


def release(value: str, line: int = 1, member: str = "s.txt") -> Fact:
    return Fact("kernel.release", value, Citation(member, line))


def test_members_without_a_name_join_the_only_host() -> None:
    """A uname in one file names the rest."""
    found = group_by_host({"a": [reading(release("3.10"), host="db1")], "b": [reading(sample(1, "b"))]})
    assert [(p.host, len(p.records)) for p in found.hosts] == [("db1", 2)]


def test_two_named_hosts_stay_apart() -> None:
    """And what is nameless joins neither."""
    found = group_by_host({
        "a": [reading(sample(1, "a"), host="db1")], "b": [reading(sample(1, "b"), host="db2")], "c": [reading(sample(1,
        "c"))],
    })  # fmt: skip
    assert sorted((p.host, len(p.records)) for p in found.hosts) == [("", 1), ("db1", 1), ("db2", 1)]


def test_a_speaker_without_measurements_is_a_note() -> None:
    """What others say of their kernel has no influence."""
    found = group_by_host({"s.txt": [reading(sample(1)), reading(release("5.4"), speaker="Al")]})
    assert [len(p.records) for p in found.hosts] == [1]
    assert [("Al" in n.text, "5.4" in n.text) for n in found.notes] == [(True, True)]


def test_a_speaker_with_measurements_is_a_host_of_his_own() -> None:
    """His counters are not those of the first host."""
    found = group_by_host({"s.txt": [reading(sample(1), host="db1"), reading(sample(9), speaker="Al", host="als")]})
    assert sorted(p.host for p in found.hosts) == ["als", "db1"]


def test_no_record_is_in_two_piles() -> None:
    """Every record of a measured group is in exactly one."""
    rows = [reading(sample(n), host=host) for n, host in enumerate(["", "db1", "", "db2", "db1"])]
    found = group_by_host({"s.txt": rows})
    lines = sorted(r.cite.line or 0 for p in found.hosts for r in p.records)
    assert lines == [0, 1, 2, 3, 4]
