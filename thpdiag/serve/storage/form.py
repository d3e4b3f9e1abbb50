"""The tables of the upload page, and their version.

    thpdiag_serve  the version of this form, and the folder of bundles that the database belongs to
    upload         what is being sent or was: its file is in the folder `uploads` until all of it is there
    bundle         a content by its sha256; `removed` says when its file was, while cases of it stay
    job            one analysis to be made: the queue
    case           what came of an analysis of a bundle, under a random id
    document       the result document of a case: JSON, packed with zlib
    host           one row per host of a case: its verdict and what groups it with others; place 0 leads
    finding        one row per finding of a host
    token          hashes of API tokens
    audit          who did what

Times are seconds since 1970 in UTC. `document` stands apart, so that lists do not read past it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
)

from thpdiag.serve.storage.texts import Short, Told
from thpdiag.triage.store.rows import FINDING, HOST

VERSION: Final = 1
HOST_SEARCHED: Final = ("name", "verdict", "rule", "mechanism", "severity", "confidence")
TABLES: Final = MetaData()
_COUNTED: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts in a column of this name only

form: Final = Table(
    "thpdiag_serve", TABLES,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("folder", Short, nullable=False),
)  # fmt: skip

bundle: Final = Table(
    "bundle", TABLES,
    Column("sha256", Short, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("stored", Double, nullable=False),  # when its content came last
    Column("removed", Double),
    Index("bundle_by_time", "stored"),
)  # fmt: skip

case: Final = Table(
    "case", TABLES,
    Column("number", _COUNTED, primary_key=True),  # the order in which they were made
    Column("id", Short, nullable=False, unique=True),
    Column("sha256", Short, ForeignKey("bundle.sha256"), nullable=False),
    Column("analysis", Short, nullable=False),  # digest of the next three: what changes a result but the bundle
    Column("tool_version", Short, nullable=False),
    Column("rules_digest", Short, nullable=False),
    Column("options", Told, nullable=False),
    Column("name", Short, nullable=False),
    Column("status", Short, nullable=False),
    Column("reason", Told, nullable=False),
    Column("made", Double, nullable=False),
    Column("kept", Boolean, nullable=False),
    UniqueConstraint("sha256", "analysis"),
    Index("case_by_time", "made"),
)  # fmt: skip

document: Final = Table(
    "document", TABLES,
    Column("case", _COUNTED, ForeignKey("case.number", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("packed", LargeBinary, nullable=False),
)  # fmt: skip

host: Final = Table(
    "host", TABLES,
    Column("case", _COUNTED, ForeignKey("case.number", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    *(
        Column(name, Integer if name == "undecided" else Short if name in HOST_SEARCHED else Told, nullable=True)
        for name in HOST
    ),
    Index("host_by_name", "name", "case"),  # with the case, so that a search need not read these long rows
    Index("host_by_verdict", "verdict", "mechanism", "case"),
    Index("host_by_mechanism", "mechanism", "case"),
)  # fmt: skip

finding: Final = Table(
    "finding", TABLES,
    Column("case", _COUNTED, primary_key=True, autoincrement=False),
    Column("host", Integer, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    *(Column(name, Short) for name in FINDING),
    ForeignKeyConstraint(("case", "host"), ("host.case", "host.place"), ondelete="CASCADE"),
    Index("finding_by_rule", "rule", "case", "host"),
)  # fmt: skip

job: Final = Table(
    "job", TABLES,
    Column("number", _COUNTED, primary_key=True),  # the order of the queue
    Column("id", Short, nullable=False, unique=True),
    Column("sha256", Short, ForeignKey("bundle.sha256"), nullable=False),
    Column("options", Told, nullable=False),
    Column("name", Short, nullable=False),
    Column("owner", Short, nullable=False),
    Column("state", Short, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("claim", Short),  # of whoever works on it now; another one's word no longer counts
    Column("queued", Double, nullable=False),
    Column("started", Double),
    Column("heartbeat", Double),
    Column("ended", Double),
    Column("stage", Short, nullable=False),
    Column("status", Short, nullable=False),  # how a job ended that has failed, as `guard.outcome` names it
    Column("reason", Told, nullable=False),
    Column("case", _COUNTED, ForeignKey("case.number", ondelete="CASCADE")),
    Index("job_by_state", "state", "number"),
    Index("job_by_bundle", "sha256"),
    Index("job_by_case", "case"),
)  # fmt: skip

upload: Final = Table(
    "upload", TABLES,
    Column("id", Short, primary_key=True),
    Column("name", Short, nullable=False),
    Column("owner", Short, nullable=False),
    Column("size", BigInteger),  # as it was announced, if it was
    Column("reserved", BigInteger, nullable=False),  # bytes of the disk that are spoken for
    Column("state", Short, nullable=False),
    Column("sha256", Short),
    Column("begun", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("ended", Double),
    Column("job", _COUNTED, ForeignKey("job.number", ondelete="SET NULL")),
    Index("upload_by_state", "state", "expires"),
    Index("upload_by_bundle", "sha256"),
    Index("upload_by_job", "job"),
)  # fmt: skip

token: Final = Table(
    "token", TABLES,
    Column("prefix", Short, primary_key=True),  # the part of a token that may be shown, to find it by
    Column("sha256", Short, nullable=False),
    Column("label", Short, nullable=False),
    Column("scopes", Short, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("used", Double),
)  # fmt: skip

audit: Final = Table(
    "audit", TABLES,
    Column("number", _COUNTED, primary_key=True),
    Column("at", Double, nullable=False),
    Column("action", Short, nullable=False),
    Column("outcome", Short, nullable=False),
    Column("actor", Short, nullable=False),
    Column("address", Short, nullable=False),
    Column("subject", Short, nullable=False),
    Index("audit_by_time", "at"),
    Index("audit_by_subject", "subject"),
)  # fmt: skip
