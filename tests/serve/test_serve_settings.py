"""Settings of the server: defaults, a file, options over it; whatever is invalid is said in one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from command_line import ROOT, Run
from serve_process import running
from thpdiag.cli.serve import run_server
from thpdiag.errors import UsageError
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.settings import Settings, data_folder, load_settings, parse_duration, parse_size

MANY = {"origins": "origin", "proxies": "proxy", "admins": "admin"}


@pytest.mark.parametrize(("text", "bytes_"), [("2 GiB", 2 << 30), ("1.5MB", 1_500_000), (" 7 B ", 7)])
def test_sizes(text: str, bytes_: int) -> None:
    """A number and a unit, with or without a space."""
    assert parse_size(text) == bytes_


@pytest.mark.parametrize(
    ("text", "seconds"), [("14 d", 14 * 86_400), ("90min", 5400), ("0.5 h", 1800), ("2 w", 1_209_600)]
)
def test_durations(text: str, seconds: float) -> None:
    """A number and a unit."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "GiB", "-1 GiB", "0 B", "1e9 B", "2 gib", "inf GiB", "9" * 15 + " TiB", "٣ GiB"]
)
def test_what_is_no_size(text: str) -> None:
    """Without a unit, of nothing, of more than there is, or in other digits."""
    with pytest.raises(UsageError):
        parse_size(text)


def test_every_setting_is_a_key_and_an_option() -> None:
    """What the file knows is what there is, and the command has it too, but for the scopes of a proxy's users."""
    names = {field.name for field in fields(Settings)}
    given = {parameter.name for parameter in run_server.params} - {"config"}
    assert len(names) == 36
    assert names - given == {"user_scopes"}


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    """The file in docs/how-to/serve.md is taken as it stands there."""
    text = (ROOT / "docs/how-to/serve.md").read_text().partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "serve.toml"
    file.write_text(text)
    read = load_settings(file, {"port": 9000, "origins": (), "host": None})

    assert (read.access, read.port, read.quota, read.keep_cases) == (Mode.PROXY, 9000, 200 << 30, 180 * 86_400)
    assert set(tomllib.loads(text)) <= {field.name for field in fields(Settings)}
    assert read.to_access().admins == {"anna"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("prot = 1", "no such setting: prot"), ("port = '1'", "port: must be a number"),
        ("port = true", "port: must be a number"), ("port = 70000", "from 0 to 65535"),
        ("quota = 5", "quota: must be a string"), ("quota = '5'", "quota: no size"),
        ("access = 'all'", "one of none, tokens, proxy"), ("origins = 'x'", "must be a list"), ("=", "not valid TOML"),
        ("data = ''", "data: must be a string"),
    ],
)  # fmt: skip
def test_a_file_that_makes_no_sense(line: str, said: str, tmp_path: Path, run: Run) -> None:
    """Exit 2, with file and key."""
    file = tmp_path / "serve.toml"
    file.write_text(line)
    left = run("serve", "--config", file)
    assert (left.code, str(file) in left.err, said in left.err) == (2, True, True)


def test_where_the_data_is_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Among the user's data; a relative XDG_DATA_HOME counts as none."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "thpdiag" / "serve"
    monkeypatch.setenv("XDG_DATA_HOME", "somewhere")
    monkeypatch.setenv("HOME", "/home/anna")
    assert data_folder() == Path("/home/anna/.local/share/thpdiag/serve")


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        (("--host", "0.0.0.0"), "name a mode of access", 2),
        (("--access", "proxy"), "addresses of the proxy", 2),
        (("--proxy", "0.0.0.0/0", "--access", "proxy"), "trusts every address", 2),
        (("--data", "/dev/null/data"), "cannot be written", 3),
        (("--database", "mysql://x"), "postgresql+psycopg", 2),
    ],
)
def test_what_cannot_be_started(options: tuple[str, ...], said: str, code: int, tmp_path: Path, run: Run) -> None:
    """One sentence and the exit code; nobody could reach it meanwhile."""
    left = run("serve", "--data", tmp_path / "data", "--port", "0", *options)
    assert (left.code, left.out, said in left.err, "Traceback" in left.err) == (code, "", True, False)


def test_one_server_at_a_time(tmp_path: Path, run: Run) -> None:
    """A second one on the folder, or on the port, says so; the first goes on."""
    with running(tmp_path / "data") as server:
        same = run("serve", "--data", tmp_path / "data", "--port", "0")
        taken = run("serve", "--data", tmp_path / "other", "--port", str(server.port))
        assert server.asked("GET", "/healthz")[0] == 200
    assert (same.code, "another server runs" in same.err) == (2, True)
    assert (taken.code, f"port {server.port}: Address already in use" in taken.err) == (2, True)


def test_a_token_is_made_used_and_ended_beside_the_server(tmp_path: Path, run: Run) -> None:
    """It is printed once; the list has its prefix only; once it is ended it opens nothing."""
    where = ("--data", tmp_path / "data")
    with running(tmp_path / "data", "--access", "tokens") as server:
        made = run("serve", "token", "create", "ci", "--scope", "read", "--expires", "1 d", *where)
        secret = made.out.strip()
        prefix = secret.split("_")[1]
        login = {"Authorization": f"Bearer {secret}"}
        assert server.asked("GET", "/api/v1/cases", **login)[0] == 200
        assert server.asked("GET", "/api/v1/cases")[0] == 401
        listed = run("serve", "token", "list", *where).out
        assert (prefix in listed, secret in listed, listed.split("\t")[1]) == (True, False, "read")
        assert run("serve", "token", "revoke", prefix, *where).code == 0
        assert server.asked("GET", "/api/v1/cases", **login)[0] == 401
    assert run("serve", "token", "revoke", prefix, *where).code == 2
    assert secret not in server.log.read_text()


def test_prune_says_what_went(tmp_path: Path, run: Run) -> None:
    """Of an empty folder nothing; it may be asked for beside a server."""
    with running(tmp_path / "data"):
        assert run("serve", "prune", "--data", tmp_path / "data").out == "pruned: nothing; 0 bytes of bundles\n"


@pytest.mark.parametrize("package", ["sqlalchemy", "uvicorn"])
def test_packages_that_are_not_installed(package: str) -> None:
    """It says what to install."""
    code = f"import sys; sys.modules[{package!r}] = None\nfrom thpdiag.cli import main\nmain(sys.argv[1:])"
    command = [sys.executable, "-c", code, "serve", "--port", "0", "--data", "/dev/null/x"]
    left = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (left.returncode, "pip install 'thpdiag[serve]'" in left.stderr) == (2, True)


def test_help_needs_no_package_of_the_extra() -> None:
    """Who looks what there is has not installed it yet."""
    hide = "import sys; sys.modules.update(dict.fromkeys(('sqlalchemy', 'starlette', 'uvicorn', 'httptools')))"
    code = f"{hide}\nfrom thpdiag.cli import main\nmain(['serve', '--help'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT).returncode == 0
