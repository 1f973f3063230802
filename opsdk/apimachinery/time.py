"""The two time types of the Kubernetes API.

``Time`` has whole seconds and is a plain ``datetime``. ``MicroTime`` (Lease, Event) has exactly six decimals; the
server rejects fewer, so it is a class of its own.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go (v1.36)
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

Time = datetime
"""RFC 3339 with seconds, such as ``2026-01-01T00:00:00Z``. Always aware; sent in UTC."""


class MicroTime(datetime):
    """RFC 3339 with exactly six decimals, such as ``2026-01-01T00:00:00.000000Z``.

    >>> MicroTime.of(datetime(2026, 1, 1, tzinfo=UTC)).wire()
    '2026-01-01T00:00:00.000000Z'
    """

    @classmethod
    def of(cls, timestamp: datetime) -> Self:
        """Return an aware datetime as a MicroTime in UTC."""
        return cls.fromisoformat(timestamp.astimezone(UTC).isoformat())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an RFC 3339 time. Raises ``ValueError``, also if the time zone is missing."""
        timestamp = datetime.fromisoformat(text)
        if timestamp.tzinfo is None:
            raise ValueError(f"{text!r} has no time zone")
        return cls.of(timestamp)

    def wire(self) -> str:
        """Return the JSON form."""
        # Not strftime: it writes the year 1 (Go's zero time) without leading zeros.
        return self.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def whole_seconds(timestamp: datetime) -> Time:
    """Return an aware datetime in UTC without its fraction, as the server stores a Time."""
    return timestamp.astimezone(UTC).replace(microsecond=0)
