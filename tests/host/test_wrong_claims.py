"""What people repeat and is not so, and releases that were never made, are doubted in a note; no rule counts them."""

from __future__ import annotations

import pytest

from analyze_bytes import document

CLAIMS = {  # what a text says, and a word of the answer
    "[3] Looks like in CentOS 6.4 defrag was disabled by default to cope\n    with it: https://bugs/?id=5": "6.4",
    "Upgrade: RHEL 6.4 disabled the THP defrag by default.": "6.4",
    "THP is not turned on by default in Ubuntu or RHEL 5.x, so there is no problem there.": "18.04",
    "On Ubuntu transparent huge pages are disabled by default.": "18.04",
    "Transparent Huge Pages are disabled by default in RHEL 7, aren't they.": "6 to 9",
    "As defrag is never here, which also stops khugepaged and with it THP, all is well.": "khugepaged/defrag",
    "The page allocation failure of order:9 in dmesg is caused by THP.": "driver",
    "We run with vm.nr_hugepages = 0, so THP is off.": "hugetlbfs",
    "THP aside, vm.swappiness=0 disables swap.": "swapoff",
}
NO_CLAIMS = [
    "On CentOS 6.4 we disabled defrag of THP.",
    "On our CentOS 6.4 hosts the THP defrag is disabled.",
    "We have THP disabled on all Ubuntu hosts.",
    "Is THP disabled by default in Ubuntu?",
    "THP is not disabled by default in Ubuntu.",
    "It is a myth that CentOS 6.4 disabled defrag for THP by default.",
    "We disabled THP defrag on CentOS 6.5.",
    "Page allocation failure of order:9 came from the driver of the card, THP has no part in it.",
    "vm.swappiness=0 was set, and THP is on; swap is empty.",
]
DOUBT = "the text repeats a wrong statement"


def notes(text: str) -> list[str]:
    return [note["text"] for note in document(text.encode())["notes"] if DOUBT in note["text"]]


@pytest.mark.parametrize("text", CLAIMS)
def test_a_wrong_claim_is_doubted_aloud(text: str) -> None:
    """Once, at its line, with what is so instead; it makes no finding."""
    result = document(f"Hello,\n\n{text}\n\n{text}\n".encode())
    found = [note for note in result["notes"] if DOUBT in note["text"]]
    assert len(found) == 1
    assert CLAIMS[text] in found[0]["text"]
    assert found[0]["line"] == 3
    assert result["findings"] == []


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_a_question_a_denial_or_another_statement_is_none(text: str) -> None:
    """Nothing is doubted that nobody says."""
    assert notes(text) == []


@pytest.mark.parametrize("release", ["Ubuntu 04.04.1 LTS", "Ubuntu 14.05", "SUSE Linux Enterprise Server 13 SP1"])
def test_a_release_that_was_never_made_is_doubted(release: str) -> None:
    """The host's release is then not known."""
    told = document(f"node1:~# cat /etc/issue\n{release} \\n \\l\nnode1:~# uname -r\n4.4.0-21-generic\n".encode())
    assert any(f"there is no release {release[:12]}" in note["text"] for note in told["notes"])


@pytest.mark.parametrize("release", ["Ubuntu 14.04.5 LTS", "Ubuntu 6.06", "SUSE Linux Enterprise Server 12 SP5"])
def test_a_real_release_is_not(release: str) -> None:
    """Nor is the service release behind it."""
    told = document(f"node1:~# cat /etc/issue\n{release} \\n \\l\nnode1:~# uname -r\n4.4.0-21-generic\n".encode())
    assert not any("there is no release" in note["text"] for note in told.get("notes", ()))
