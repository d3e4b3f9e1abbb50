"""`thpdiag mcp` as an agent uses it: the SDK's own client over standard input and output, and what it may not read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from command_line import ROOT
from thpdiag.errors import InputError
from thpdiag.mcp.bundles import Bundles, Roots

FIXTURES = ROOT / "fixtures"
SECRET = "analysts-own-secret-4711"
STORM, CALM, THIN = "nightly/storm", "nightly/calm.tar.gz", "ticket"
PLACE = re.compile(r".+:\d+")
QUESTIONS = 100
# Ways out of the roots that an agent may be talked into.
TRICKS = (
    "/etc/passwd", "//etc/passwd", "..", "../outside", "nightly/..", "nightly/../../outside/secret.txt",
    "nightly/./storm", "nightly//storm", "./nightly", "~", "~/.ssh", "$HOME", "file:///etc/passwd", "outside", "",
    "nightly/link.txt", "nightly/elsewhere", "nightly/elsewhere/secret.txt", "nightly/pipe", "nightly/storm\0.txt",
    "nightly/storm\n", "nightly\\storm", "%2e%2e/outside", "nightly/storm/bundle/vmstat.txt/x", "nightly/" + "a" * 300,
)  # fmt: skip


@dataclass
class Agent:
    """Calls with their answers; an error of a tool is its text."""

    answers: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)

    def __getitem__(self, call: str) -> Any:
        assert call in self.answers, self.errors.get(call)
        return self.answers[call]

    def everything(self) -> str:
        return json.dumps([self.answers, self.errors])


def call(tool: str, **given: Any) -> str:
    return f"{tool} {json.dumps(given, sort_keys=True)}"


SCRIPT = (
    call("load"), call("load", path=STORM), call("load", path=CALM), call("load", path=THIN),
    call("verdict", bundle=STORM), call("verdict", bundle=THIN),
    call("why", bundle=STORM), call("why", bundle=THIN), call("why", bundle=STORM, rule="fault-compaction"),
    call("why_not", bundle=STORM, rule="memory-leak"), call("why_not", bundle=STORM, rule="THP-005"),
    call("why", bundle=STORM, rule="no-such-rule"),
    call("evidence_lines", bundle=STORM, rule="THP-010"), call("evidence_lines", bundle=STORM, member="/etc/passwd"),
    call("ask", bundle=THIN), call("ask", bundle=THIN, script=False), call("ask", bundle=STORM),
    call("compare", before=STORM, after=CALM), call("compare", before=STORM, after=THIN),
    call("series", bundle=STORM), call("series", bundle=STORM, metric="compact_stall", limit=2),
    call("series", bundle=THIN, metric="compact_stall"),
    call("rules", bundle=THIN, outcome="unknown"), call("rules", query="THP-010"),
    call("verdict", bundle=STORM, host="nobody"), call("ask", bundle=THIN, pid="1; reboot"),
    *(call("load", path=trick) for trick in TRICKS if trick),
    *(call("verdict", bundle=trick) for trick in TRICKS),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two roots, and beside them what belongs to nobody but the analyst; links lead there, one from within a bundle."""
    place = tmp_path_factory.mktemp("mcp")
    (place / "outside").mkdir()
    (place / "outside" / "secret.txt").write_text(f"cat /proc/vmstat\ncompact_stall 1\n{SECRET}\n")
    nightly = place / "nightly"
    shutil.copytree(FIXTURES / "captures" / "alloc-churn", nightly / "storm")
    (nightly / "storm" / "bundle" / "proc-vmstat.txt").symlink_to(place / "outside" / "secret.txt")
    calm = FIXTURES / "captures" / "churn-never"
    subprocess.run(["tar", "-czf", nightly / "calm.tar.gz", "-C", calm, "bundle"], check=True)
    (nightly / "link.txt").symlink_to(place / "outside" / "secret.txt")
    (nightly / "elsewhere").symlink_to(place / "outside")
    subprocess.run(["mkfifo", nightly / "pipe"], check=True)
    shutil.copytree(FIXTURES / "stories" / "sudo-echo" / "bundle", place / "ticket")
    return place


@pytest.fixture(scope="module")
def agent(folder: Path) -> Agent:
    """One session: the script, then as many questions as there are that nothing decides."""
    mcp, anyio = pytest.importorskip("mcp"), pytest.importorskip("anyio")  # half a second, not of each worker
    done = Agent()

    async def session() -> None:
        arguments = ["-m", "thpdiag", "mcp", str(folder / "nightly"), str(folder / "ticket")]
        server = mcp.StdioServerParameters(command=sys.executable, args=arguments, cwd=str(ROOT))
        async with mcp.Client(server) as client:
            done.tools = {tool.name for tool in (await client.list_tools()).tools}
            for line in SCRIPT:
                await answered(client, line)
            open_rules = [row["id"] for row in done[call("rules", bundle=THIN, outcome="unknown")]["result"]]
            for number, rule in enumerate(open_rules[:QUESTIONS]):
                await answered(client, call(("why", "why_not")[number % 2], bundle=THIN, rule=rule))

    async def answered(client: Any, line: str) -> None:
        tool, _, given = line.partition(" ")
        result = await client.call_tool(tool, json.loads(given))
        if result.is_error:
            done.errors[line] = result.content[0].text
        else:
            done.answers[line] = result.structured_content

    with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may count as running
        pool.submit(anyio.run, session).result()
    return done


def statements(answer: Any) -> Iterator[dict[str, Any]]:
    """All statements of an answer, wherever they stand."""
    if isinstance(answer, dict):
        if "cites" in answer:
            yield answer
        for part in answer.values():
            yield from statements(part)
    elif isinstance(answer, list):
        for part in answer:
            yield from statements(part)


def test_a_client_walks_from_the_bundles_to_the_lines(agent: Agent) -> None:
    """List, load, verdict, why, lines: each step has what the next one needs."""
    assert agent.tools == {
        "load", "verdict", "why", "why_not", "evidence_lines", "ask", "compare", "series", "rules"
    }  # fmt: skip
    assert agent[call("load")]["bundles"] == ["nightly", CALM, STORM, THIN, *sorted(
        f"{THIN}/{file.name}" for file in (FIXTURES / "stories" / "sudo-echo" / "bundle").iterdir())]  # fmt: skip
    assert [one["answer"] for one in agent[call("load", path=STORM)]["hosts"]] == ["found"]

    verdict, why = agent[call("verdict", bundle=STORM)], agent[call("why", bundle=STORM)]
    assert (verdict["answer"], verdict["rule"], verdict["mechanism"]) == ("found", "THP-010", "fault-compaction")
    assert [bool(one["now"] and one["undo"]) for one in verdict["remedies"]] == [True]
    assert len(why["remedies"]) == 1 + len(verdict["further_remedies"]) > 1
    assert (why["answer"], why["confidence"]) == ("yes", "confirmed")
    assert agent[call("why", bundle=STORM, rule="fault-compaction")]["answer"] == "yes"
    cited = {cite for one in why["statements"] for cite in one["cites"]}
    lines = agent[call("evidence_lines", bundle=STORM, rule="THP-010")]
    assert cited <= {cite for one in lines["statements"] for cite in one["cites"]}
    assert any("compact_zone" in line for one in lines["statements"] for line in one["excerpt"])


def test_every_statement_has_a_line_of_the_bundle(agent: Agent) -> None:
    """`member:line`, and what is quoted stands in that file."""
    found = list(statements(list(agent.answers.values())))
    assert len(found) > 50
    assert [one for one in found if not one["cites"] or not all(map(PLACE.fullmatch, one["cites"]))] == []

    for one in statements(agent[call("why", bundle=STORM)]):
        member, _, number = one["cites"][-1].rpartition(":")
        line = (FIXTURES / "captures" / "alloc-churn" / member).read_text().splitlines()[int(number) - 1]
        assert any(quoted.split() == line.split() for quoted in one["excerpt"]), one


def test_what_is_undecided_is_answered_cannot_tell(agent: Agent) -> None:
    """A hundred questions that nothing in the bundle decides: each names the data that would."""
    asked = [line for line in agent.answers if line.startswith(("why ", "why_not ")) and THIN in line and "-" in line]
    asked = [line for line in asked if '"rule"' in line]
    assert len(asked) == QUESTIONS
    assert {agent[line]["answer"] for line in asked} == {"cannot tell"}
    needs = [need for line in asked for need in agent[line]["would_decide"]]
    assert [line for line in asked if not agent[line]["would_decide"]] == []
    assert all(need["ask_for"] for need in needs)

    for line in (call("verdict", bundle=THIN), call("why", bundle=THIN)):
        assert (agent[line]["answer"], bool(agent[line]["would_decide"])) == ("cannot tell", True)
    for line in (
        call("why", bundle=STORM, rule="no-such-rule"),
        call("evidence_lines", bundle=STORM, member="/etc/passwd"),
        call("series", bundle=THIN, metric="compact_stall"),
    ):
        assert agent[line]["answer"] == "cannot tell"
        assert agent[line]["would_decide"]
    (compared,) = agent[call("compare", before=STORM, after=THIN)]["result"]
    assert (compared["answer"], bool(compared["would_decide"])) == ("cannot tell", True)


def test_a_rule_that_does_not_hold_is_a_no_with_its_number(agent: Agent) -> None:
    """What was ruled out has a line; of other silent rules the checks are named."""
    leak = agent[call("why_not", bundle=STORM, rule="memory-leak")]
    assert (leak["answer"], leak["text"].startswith("Not a memory leak")) == ("no", True)
    assert leak["statements"][0]["cites"]
    other = agent[call("why_not", bundle=STORM, rule="THP-005")]
    assert (other["answer"], other["statements"]) == ("no", [])
    assert any(line.startswith("application: no") for line in other["conditions"])


def test_requests_comparisons_series_and_rules(agent: Agent) -> None:
    """The letter with its script, whether a change helped, values with their source, what a rule means."""
    request = agent[call("ask", bundle=THIN)]
    assert request["answer"] == "ask"
    assert request["script"].startswith("#!/bin/sh")
    assert agent[call("ask", bundle=THIN, script=False)] == request | {"script": ""}
    assert agent[call("ask", bundle=STORM)]["answer"] == "nothing is missing"
    (compared,) = agent[call("compare", before=STORM, after=CALM)]["result"]
    assert compared["answer"] == "fixed"
    assert "thp.enabled: always -> never" in compared["settings"]
    (series,) = agent[call("series", bundle=STORM, metric="compact_stall", limit=2)]["series"]
    assert series["metric"] == "node_vmstat_compact_stall:rate"
    assert PLACE.fullmatch(series["source"])
    assert len(series["points"]) == 2
    assert not any(one["points"] for one in agent[call("series", bundle=STORM)]["series"])
    (rule,) = agent[call("rules", query="THP-010")]["result"]
    assert rule["means"]
    assert rule["false_positives"]


def test_nothing_beside_the_bundles_can_be_read(agent: Agent) -> None:
    """Absolute paths, `..`, links and pipes are refused, in every tool; a link within a bundle is not followed."""
    tricks = [call("load", path=trick) for trick in TRICKS if trick]
    tricks += [call("verdict", bundle=trick) for trick in TRICKS]
    assert [line for line in tricks if line not in agent.errors] == []
    assert SECRET not in agent.everything()
    assert Path("/etc/passwd").read_text().partition("\n")[0] not in agent.everything()
    assert {call("verdict", bundle=STORM, host="nobody"), call("ask", bundle=THIN, pid="1; reboot")} <= set(
        agent.errors
    )


def test_files_beside_a_recording_are_not_read_with_it(tmp_path: Path) -> None:
    """`analyze perf.data` takes the symbols beside it; here they may be a link to anything."""
    recordings = FIXTURES / "readers" / "perf_data"
    shutil.copy(recordings / "plain" / "perf.data", tmp_path / "perf.data")
    (tmp_path / "kallsyms").symlink_to(recordings / "plain.kallsyms.txt")
    bundles = Bundles(Roots([tmp_path / "perf.data"]))
    try:
        result, incomplete = bundles.load("perf.data")
    finally:
        bundles.close()
    assert [row.member for row in result.inputs] == ["perf.data"]
    assert "cat /proc/kallsyms" in incomplete


def test_roots_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Each has a name of its own; a root may itself be a link, for the analyst named it."""
    for name in ("one/same", "two/same"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "two" / "same")
    roots = Roots([tmp_path / "one" / "same", tmp_path / "link", tmp_path / "two" / "same"])
    assert [roots.find(name).parent.name for name in roots.names()] == ["one", "two"]
    with pytest.raises(InputError, match="not below a root"):
        roots.find("link")


def test_without_the_sdk_the_command_says_what_to_install() -> None:
    """One sentence with the command of pip; no other command needs the SDK."""
    code = "import sys; sys.modules['mcp'] = None; from thpdiag.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, "mcp", "."], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().endswith("(mcp is missing or too old): pip install 'thpdiag[mcp]'")


def test_the_server_alone_imports_the_sdk() -> None:
    """Whoever does not run it needs neither the SDK nor what that brings."""
    imports = re.compile(r"^\s*(?:from|import) mcp\b", re.MULTILINE)
    users = [file.name for file in (ROOT / "thpdiag").rglob("*.py") if imports.search(file.read_text())]
    assert users == ["server.py"]
