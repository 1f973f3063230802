"""Durations as the Kubernetes API writes them: ``90s``, ``1h30m``, ``1.5s``.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/duration.go (v1.36), which uses the format of Go's ``time.Duration``.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Self

# A search starts at the first character of a number only; otherwise each digit of a long number starts a scan.
_PART = re.compile(r"(?<![0-9.])([0-9]++\.?[0-9]*+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
_MICROSECONDS = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ms": Decimal(1000),
    "s": Decimal(10**6),
    "m": Decimal(60 * 10**6),
    "h": Decimal(3600 * 10**6),
}
# Go counts nanoseconds in 64 bits.
_LIMIT = Decimal(2**63) / 1000


class Duration(timedelta):
    """A ``timedelta`` whose JSON form is Go's, such as ``1h30m0s``. Microseconds are the smallest unit.

    >>> Duration.parse("1.5h").wire()
    '1h30m0s'
    >>> Duration(milliseconds=250).wire()
    '250ms'
    """

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Go's form. Raises ``ValueError`` if `text` is not a duration or exceeds 292 years."""
        body = text[1:] if text[:1] in ("-", "+") else text
        parts = list(_PART.finditer(body))
        if body != "0" and (not parts or "".join(part.group() for part in parts) != body):
            raise ValueError(f"{text!r} is not a duration: write numbers with units, such as 90s or 1h30m")
        total = sum((Decimal(part.group(1)) * _MICROSECONDS[part.group(2)] for part in parts), Decimal())
        if total >= _LIMIT:
            raise ValueError(f"{text!r} is not a duration: it exceeds 292 years")
        return cls(microseconds=int(-total if text[:1] == "-" else total))

    def wire(self) -> str:
        """Return the JSON form, as Go's ``Duration.String`` writes it."""
        microseconds = self // timedelta(microseconds=1)
        sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
        if rest == 0:
            return "0s"
        if rest < 1000:
            return f"{sign}{rest}µs"
        if rest < 10**6:
            return f"{sign}{_number(rest, 1000)}ms"
        hours, rest = divmod(rest, 3600 * 10**6)
        minutes, rest = divmod(rest, 60 * 10**6)
        seconds = f"{_number(rest, 10**6)}s"
        if hours:
            return f"{sign}{hours}h{minutes}m{seconds}"
        return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _number(value: int, unit: int) -> str:
    """Return ``value / unit`` without trailing zeros."""
    text = format(Decimal(value) / unit, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
