"""The two times of the Kubernetes API.

``Time`` has whole seconds and is a plain ``datetime`` here. ``MicroTime`` (leases, events) always carries six
decimals on the wire: servers refuse it with fewer, so it is a type of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

Time = datetime
"""RFC 3339 with seconds, e.g. ``2026-01-01T00:00:00Z``. Always aware; UTC on the wire."""


class MicroTime(datetime):
    """RFC 3339 with exactly six decimals, e.g. ``2026-01-01T00:00:00.000000Z``.

    >>> MicroTime.of(datetime(2026, 1, 1, tzinfo=UTC)).wire()
    '2026-01-01T00:00:00.000000Z'
    """

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """The same moment as a MicroTime, in UTC."""
        return cls.fromisoformat(moment.astimezone(UTC).isoformat())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read any RFC 3339 time; ``ValueError`` if it is none."""
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(f"{text!r} has no time zone")
        return cls.of(moment)

    def wire(self) -> str:
        """As it is sent."""
        # Not strftime: it writes the year 1, Go's zero time, without its leading zeros.
        return self.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def whole_seconds(moment: datetime) -> Time:
    """`moment` in UTC without its fraction, as the server stores a Time."""
    return moment.astimezone(UTC).replace(microsecond=0)
