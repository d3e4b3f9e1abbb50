"""Two settings of one host compared: what counts as a cure, and whether the trouble is over."""

from __future__ import annotations

from judging import document, found

HOST = "[root@db1 ~]# "
DEFRAG = "/sys/kernel/mm/transparent_hugepage/defrag"
SICK, WELL = (20, 70), (50, 4)  # user and kernel time in percent


def vmstat(user: int, kernel: int) -> str:
    """Eight rows of vmstat."""
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    row = (
        f" 9  0      0 400000   1000 200000    0    0    10   100 2000 3000 {user} {kernel} {100 - user - kernel} 0 0\n"
    )
    return f"{HOST}vmstat 5\n{head}{row * 8}"


def session(*parts: str) -> bytes:
    start = f"{HOST}cat {DEFRAG}\n[always] defer defer+madvise madvise never\n"
    return (start + "".join(parts)).encode()


def switched(value: str) -> str:
    return f"{HOST}echo {value} > {DEFRAG}\n"


def test_what_got_better_before_the_switch_was_not_cured_by_it() -> None:
    """The kernel time had fallen while defrag was still always."""
    result = document(session(vmstat(*SICK), vmstat(*WELL), switched("never"), vmstat(*WELL)))
    assert "THP-006" not in found(result)


def test_what_gets_better_with_the_switch_was_cured_by_it() -> None:
    """The same recordings in the other order."""
    result = document(session(vmstat(*SICK), vmstat(*SICK), switched("never"), vmstat(*WELL)))
    assert found(result)["THP-006"] == "confirmed"
    assert result["verdict"]["state"] == "past"


def test_switched_back_the_trouble_is_there_again() -> None:
    """The last setting is the one that hurts."""
    parts = (vmstat(*SICK), switched("never"), vmstat(*WELL), switched("always"), vmstat(*SICK))
    result = document(session(*parts))
    assert (result["verdict"]["rule"], result["verdict"]["state"]) == ("THP-006", "present")
