"""Tokens, sessions, CSRF tokens and scopes of the upload page by themselves."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from serve_requests import KEY, KeptTokens
from thpdiag.errors import UsageError
from thpdiag.serve.access import credentials
from thpdiag.serve.access.audit import Action, Outcome, audit_event
from thpdiag.serve.access.credentials import (
    ATTEMPT_BURST,
    SECONDS_PER_ATTEMPT,
    TOKEN_SHAPE,
    Attempts,
    find_token,
    mint_token,
    note_use,
)
from thpdiag.serve.access.principals import LOCAL, AuthMethod, Principal, Scope, known_scopes, parse_scopes
from thpdiag.serve.storage.access import TokenRow

READ = frozenset((Scope.READ,))
NOW = 1_700_000_000.0


def kept(expires: float | None = None) -> tuple[str, TokenRow, KeptTokens]:
    secret, token = mint_token("ci", READ, NOW, expires)
    tokens = KeptTokens()
    tokens.kept[token.prefix] = token
    return secret, token, tokens


def test_what_is_kept_of_a_token_does_not_contain_it() -> None:
    """Its digest and its prefix are; nothing of its 256 bits, in a traceback neither."""
    secret, token, _ = kept()

    assert token.sha256 == sha256(secret.encode()).hexdigest()
    assert TOKEN_SHAPE.fullmatch(secret)
    assert secret.split("_")[1] == token.prefix
    assert secret.split("_")[2] not in str([getattr(token, name) for name in TokenRow.__slots__])
    assert token.sha256 not in repr(token)


def test_no_two_tokens_are_alike() -> None:
    """A thousand differ in prefix and secret, which has 256 bits."""
    secrets = {mint_token("ci", READ, NOW)[0] for _ in range(1000)}

    assert len({s.split("_")[1] for s in secrets}) == len({s.split("_")[2] for s in secrets}) == 1000
    assert {len(bytes.fromhex(s.split("_")[2])) for s in secrets} == {32}


def test_a_token_is_known_by_all_of_it() -> None:
    """Any other letter, another prefix, something before or after makes it another text."""
    secret, token, tokens = kept()
    other, _, _ = kept()
    changed = [secret[:at] + ("0" if secret[at] != "0" else "1") + secret[at + 1 :] for at in range(len(secret))]
    wrong = [*changed, f" {secret}", f"{secret}\n", secret.upper(), secret[:-1], f"{secret}0", "", "\udcff", other]

    assert find_token(secret, tokens, NOW) == token
    assert [text for text in wrong if find_token(text, tokens, NOW)] == []


def test_a_text_that_cannot_be_a_token_is_not_looked_up() -> None:
    """The database is not asked about anything that came."""
    _, _, tokens = kept()

    assert find_token("' OR 1=1 --", tokens, NOW) is None
    assert tokens.looked_up == 0


def test_no_digest_of_nothing_opens() -> None:
    """A row that somebody damaged matches no text, not even an empty one."""
    _, token, tokens = kept()
    tokens.kept[token.prefix] = replace(token, sha256="")

    assert find_token("", tokens, NOW) is None
    assert find_token(f"thpdiag_{token.prefix}_{'0' * 64}", tokens, NOW) is None


@pytest.mark.parametrize(
    ("label", "held", "expires"), [("", READ, None), ("a\nb", READ, None), ("ci", frozenset(), None), ("ci", READ, NOW)]
)
def test_a_token_that_makes_no_sense_is_not_made(label: str, held: frozenset[Scope], expires: float | None) -> None:
    """Without a name nobody would know it later; without scope or time it is of no use."""
    with pytest.raises(UsageError):
        mint_token(label, held, NOW, expires)


def test_the_last_use_is_written_once_a_minute() -> None:
    """Reading a hundred pages does not write a hundred times."""
    _, token, tokens = kept()

    for second in (0, 1, 59, 60, 61):
        note_use(tokens.kept[token.prefix], tokens, NOW + second)
        assert tokens.kept[token.prefix].used == (NOW if second < 60 else NOW + 60)


def test_scopes_by_name() -> None:
    """A typing mistake is told; what a later version has kept permits nothing here."""
    assert parse_scopes(["read", " upload"]) == {Scope.READ, Scope.UPLOAD}
    assert known_scopes(["read", "root"]) == {Scope.READ}
    with pytest.raises(UsageError, match="no such scope: raed"):
        parse_scopes(["raed"])


def test_a_session_is_what_this_server_began() -> None:
    """Every other letter makes it none; it has a beginning and an end."""
    value = credentials.begin_session(KEY, "0" * 16, NOW)
    last = len(value) - 1  # of its last letter two bits mean nothing
    changed = [value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :] for at in range(last)]

    session = credentials.read_session(KEY, value, NOW)
    assert session
    assert session.prefix == "0" * 16
    assert [text for text in (*changed, value[:-1], "") if credentials.read_session(KEY, text, NOW)] == []
    assert credentials.read_session(KEY, value, NOW - 1) is None
    assert credentials.read_session(KEY, value, NOW + credentials.SESSION_SECONDS - 1) is not None
    assert credentials.read_session(KEY, value, NOW + credentials.SESSION_SECONDS) is None


def test_a_cookie_is_for_this_host_and_for_no_script() -> None:
    """The words that browsers hold to; over TLS by the name too."""
    assert credentials.set_cookie_header("x", over_tls=True) == (
        "__Host-thpdiag=x; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
    )
    assert credentials.set_cookie_header("", over_tls=False) == "thpdiag=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


def test_a_csrf_token_is_for_one_session_and_a_time() -> None:
    """Not for another session, another way, another key, yesterday; and what was signed for a session is none."""
    who = Principal("ci", AuthMethod.SESSION, READ, "aa", "nonce")
    token = credentials.issue_csrf_token(KEY, who, NOW)

    assert credentials.is_csrf_token_of(KEY, who, token, NOW + credentials.CSRF_SECONDS - 1)
    assert not credentials.is_csrf_token_of(KEY, who, token, NOW + credentials.CSRF_SECONDS)
    assert not credentials.is_csrf_token_of(KEY, who, token, NOW - 1)
    assert not credentials.is_csrf_token_of(bytes(32), who, token, NOW)
    assert not credentials.is_csrf_token_of(KEY, replace(who, binding="other"), token, NOW)
    assert not credentials.is_csrf_token_of(KEY, replace(who, auth_method=AuthMethod.PROXY), token, NOW)
    assert not credentials.is_csrf_token_of(KEY, who, "", NOW)
    assert not credentials.is_csrf_token_of(KEY, who, credentials.begin_session(KEY, "aa", NOW), NOW)
    assert credentials.issue_csrf_token(KEY, who, NOW) != token


def test_attempts_come_back_with_time() -> None:
    """Ten at once, one more every six seconds, never more than ten; what is not counted adds no waiting."""
    now = [0.0]
    attempts = Attempts(lambda: now[0])

    assert [attempts.count_failure("a") for _ in range(10)] == [0] * 10
    assert [attempts.count_failure("a") for _ in range(1_000)] == [SECONDS_PER_ATTEMPT] * 1_000
    now[0] += SECONDS_PER_ATTEMPT / 2
    assert attempts.count_failure("a", "b") == SECONDS_PER_ATTEMPT / 2
    assert [attempts.count_failure("b") for _ in range(10)] == [0] * 10
    now[0] += 10_000
    assert [bool(attempts.count_failure("a")) for _ in range(11)] == [False] * 10 + [True]


def test_attempts_of_many_sources_need_little_memory() -> None:
    """The longest unseen is forgotten."""
    attempts = Attempts(lambda: 0.0, max_sources=3)
    for source in "abcd":
        for _ in range(int(ATTEMPT_BURST)):
            attempts.count_failure(source)

    assert [bool(attempts.count_failure(source)) for source in "dcba"] == [True, True, True, False]


def test_an_event_is_one_line_that_can_be_printed() -> None:
    """What a customer calls a bundle, or a proxy a user, breaks no log."""
    who = replace(LOCAL, name="a\nroot\x1b[2J")

    told = audit_event(NOW, Action.DELETE, Outcome.DONE, who, "::1", "x" * 300 + "\u202e")

    assert told.actor == "local:a\\nroot\\x1b[2J"
    assert told.subject == "x" * 200 + "..."
    assert audit_event(NOW, Action.UPLOAD, Outcome.DONE, LOCAL, "", "\u202ea\udcff").subject == "\\u202ea\\udcff"


def test_the_key_of_a_server_stays_and_is_its_own(tmp_path: Path) -> None:
    """Made once with 256 random bits; one that others can read, or that was cut, is refused."""
    file = tmp_path / "key"

    key = credentials.load_key(file)
    assert (len(key), credentials.load_key(file), file.stat().st_mode & 0o777) == (32, key, 0o600)
    assert credentials.load_key(tmp_path / "other") != key
    assert sorted(found.name for found in tmp_path.iterdir()) == ["key", "other"]
    file.chmod(0o640)
    with pytest.raises(UsageError, match="only its owner"):
        credentials.load_key(file)
    file.chmod(0o600)
    file.write_bytes(key[:31])
    with pytest.raises(UsageError, match="must be a key"):
        credentials.load_key(file)
