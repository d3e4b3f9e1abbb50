"""What webhooks are still to be told: a row per receiver and case, which is there until it was heard or given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine, delete, select, update

from thpdiag.serve.storage.database import Clock, case, delivery, fetch_rows, write_transaction

MAX_DUE: Final = 100  # that are sent at a time


@dataclass(frozen=True, slots=True)
class Delivery:
    """`receiver` stands for an address, `case` is the id of the case, `attempts` how often it was sent in vain."""

    number: int
    id: str
    receiver: str
    case: str
    attempts: int


class Deliveries:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def due(self) -> list[Delivery]:
        """The earliest first."""
        columns = (delivery.c.number, delivery.c.id, delivery.c.receiver, case.c.id, delivery.c.attempts)
        wanted = select(*columns).join(case, delivery.c.case == case.c.number).where(delivery.c.due <= self._clock())
        return [Delivery(*row) for row in fetch_rows(self._engine, wanted.order_by(delivery.c.number).limit(MAX_DUE))]

    def postpone(self, one: Delivery, until: float) -> None:
        with write_transaction(self._engine) as connection:
            own = delivery.c.number == one.number
            connection.execute(update(delivery).where(own).values(attempts=one.attempts + 1, due=until))

    def remove(self, one: Delivery) -> None:
        with write_transaction(self._engine) as connection:
            connection.execute(delete(delivery).where(delivery.c.number == one.number))
