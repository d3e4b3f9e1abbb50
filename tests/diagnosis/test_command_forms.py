"""What commands of advice hand to programs that are not here: objects for kubectl, words for saptune.

No cluster and no host of SAP HANA is at hand, so their own rules are written down here as far as the advice uses them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from advice_items import advice
from thpdiag.diagnosis.remedies import HostView
from thpdiag.knowledge.mechanisms import remedies

NODES = ("", "el8", "el9", "ubuntu22.04", "ubuntu24.04", "debian12", "sles15", "fedora41")
STEPS = (
    ("defrag-never", "fault-compaction"), ("thp-never", "huge-page-zeroing"), ("thp-madvise", "khugepaged-bloat"),
    ("khugepaged-max-ptes-none", "khugepaged-bloat"), ("khugepaged-defaults", "khugepaged-cpu"),
    ("thp-keep", "thp-off-where-needed"), ("shmem-huge-never", "shmem-file-thp"),
)  # fmt: skip
NAME = re.compile(
    r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
)  # of an object in a cluster: a label of a host's name (RFC 1123)
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# The keys of an object of apps/v1 that the advice may use; True: must be there.
DAEMON_SET = {
    "apiVersion": True, "kind": True, "metadata": {"name": True, "namespace": True},
    "spec": {
        "selector": {"matchLabels": True},
        "template": {
            "metadata": {"labels": True},
            "spec": {"containers": True, "volumes": True, "tolerations": False, "nodeSelector": False},
        },
    },
}  # fmt: skip
CONTAINER = {"name": True, "image": True, "command": True, "securityContext": False, "volumeMounts": True}
SAPTUNE = re.compile(
    r"saptune note (?:list|verify(?: \d{6,7})?|(?:apply|revert|show|simulate|customise) \d{6,7})", re.ASCII
)


def _persisted() -> Iterator[tuple[str, dict[str, Any]]]:
    for platform in NODES:
        for name, mechanism in STEPS:
            host = HostView(platform, apps=("kubernetes",), settings={"thp.enabled": "always", "thp.defrag": "always"})
            yield from ((f"{platform or 'any'}-{name}", i) for i in advice([name], mechanism, host) if i["id"] == name)


OBJECTS = [
    pytest.param(command, item, id=label)
    for label, item in _persisted()
    for command in item["persist"]
    if "kubectl apply" in command
]


def _object(command: str) -> dict[str, Any]:
    (text,) = re.findall(r"<<'EOF'\n(.*)\nEOF$", command, re.DOTALL)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _fits(given: dict[str, Any], form: dict[str, Any], at: str = "") -> None:
    unknown = set(given) - set(form)
    assert not unknown, f"{at}: {unknown}"
    for key, inner in form.items():
        assert key in given or inner is False, f"{at}.{key} is missing"
        if isinstance(inner, dict):
            _fits(given[key], inner, f"{at}.{key}")


def test_there_are_objects_to_look_at() -> None:
    """Of every kind of setting."""
    assert len(OBJECTS) >= len(NODES) * 4


@pytest.mark.parametrize(("command", "item"), OBJECTS)
def test_a_daemon_set_has_what_the_cluster_asks_for(command: str, item: dict[str, Any]) -> None:
    """Kind and version, names, labels that the selector finds, volumes that are there; no key that it does not know."""
    thing = _object(command)
    _fits(thing, DAEMON_SET)
    assert (thing["apiVersion"], thing["kind"]) == ("apps/v1", "DaemonSet")
    assert NAME.fullmatch(thing["metadata"]["name"])
    assert NAME.fullmatch(thing["metadata"]["namespace"])
    template = thing["spec"]["template"]
    labels = thing["spec"]["selector"]["matchLabels"]
    assert labels.items() <= template["metadata"]["labels"].items()
    assert all(LABEL.fullmatch(word) for pair in labels.items() for word in pair)
    (container,) = template["spec"]["containers"]
    _fits(container, CONTAINER)
    assert NAME.fullmatch(container["name"])
    volumes = {v["name"]: v for v in template["spec"]["volumes"]}
    for mount in container["volumeMounts"]:
        assert volumes[mount["name"]] == {"name": mount["name"], "hostPath": {"path": mount["mountPath"]}}
    assert all(isinstance(word, str) for word in container["command"])
    deleted = f"kubectl -n {thing['metadata']['namespace']} delete daemonset {thing['metadata']['name']}"
    assert deleted in item["undo"]


@pytest.mark.parametrize(("command", "item"), OBJECTS)
def test_the_script_of_a_daemon_set_writes_what_the_step_writes(command: str, item: dict[str, Any]) -> None:
    """It is one plain script that the shell of the image reads; shellcheck has nothing to say about it."""
    (container,) = _object(command)["spec"]["template"]["spec"]["containers"]
    shell, option, script = container["command"]
    assert (shell, option) == ("sh", "-c")
    written = [c.partition("   #")[0] for c in item["now"] if c.startswith("echo ") and "> /sys/kernel/mm/" in c]
    assert all(line in script for line in written)
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
    if shutil.which("shellcheck"):
        done = subprocess.run(
            ["shellcheck", "-s", "sh", "-S", "info", "-e", "SC2043", "-"], input=script, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("platform", "note"), [("sles12", "2205917"), ("sles15", "2684254"), ("sles16", "3577842")])
@pytest.mark.parametrize("word", ["always", "madvise", "never"])
def test_saptune_is_given_words_that_it_has(platform: str, note: str, word: str) -> None:
    """Its subcommands, one note throughout, and a value of THP that its section [vm] takes."""
    host = HostView(platform, apps=("sap-hana",), bootline=word)
    (item,) = advice(["saptune-note"], "setting-overridden", host)
    lines = [*item["now"], *item["persist"], *item["undo"], item["verify"]["how"].rpartition("; ")[2]]
    for line in lines:
        told = re.sub(r", (?:with THP=(?:always|madvise|never) in section \[vm\]|without that line)$", "", line)
        parts = told.removeprefix("# ").split(" && ")
        assert all(SAPTUNE.fullmatch(part) for part in parts), line
    assert f"THP={word} " in item["persist"][0]
    assert {n for line in lines for n in re.findall(r"\d{6,7}", line)} == {note}


def test_what_is_printed_as_a_step_does_something() -> None:
    """To name the kernel, or to look alone, cures nothing: an update names what installs it."""
    for variant in remedies()["kernel-update"]["variants"]:
        assert all(re.search(r"\b(yum|dnf|apt-get|zypper)\b", command) for command in variant["now"])
