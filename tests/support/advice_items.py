"""The remedies for a finding on a host, in their JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.diagnosis import remedies
from thpdiag.model.document import plain_document


def advice(ids: Sequence[str], mechanism: str, host: remedies.HostView) -> list[dict[str, Any]]:
    return list(map(plain_document, remedies.advice(ids, mechanism, host)))
