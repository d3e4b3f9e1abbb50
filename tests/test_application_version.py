"""Versions of applications that decide what may be advised."""

from __future__ import annotations

import pytest

from reading import readings
from thpdiag.model import Fact


@pytest.mark.parametrize("version", ["7.0.12", "8.0.4"])
def test_what_mongod_says_of_its_version_is_read(version: str) -> None:
    """From 8.0 on it wants huge pages, and nobody must be told to switch them off."""
    text = f"[root@db1 ~]# mongod --version\ndb version v{version}\nBuild Info: {{\n"
    facts = [r.record for r in readings(text.encode()) if isinstance(r.record, Fact)]
    assert [(f.value, f.label("app")) for f in facts if f.name == "app.version"] == [(version, "mongodb")]
