"""What a recording is made of: one record for each message that crosses the boundary of an operator. Pure.

Times are seconds of the event loop since the start of the recording.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["FORMAT", "ExchangeBegan", "ExchangeEnded", "Received", "Record", "RecordingBegan", "Responded", "Skipped"]

FORMAT: Final = 1
"""Version of the records: another one may have other fields."""


class RecordingBegan(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """The first record of each file.

    Attributes:
        format: see `FORMAT`.
        opsdk: version of the framework.
        python: version of Python.
        operator: its name.
        code: digest of the operator's code; empty if it could not be read.
        wall: the UTC time of the start, in ISO 8601.
        seed: of the random numbers that opsdk draws.
        file: number of the file in the recording, from 0: a later file needs those before it.
    """

    format: int
    opsdk: str
    python: str
    operator: str
    code: str
    wall: str
    seed: int
    file: int


class ExchangeBegan(msgspec.Struct, frozen=True, kw_only=True, tag="request", omit_defaults=True):
    """A request of the operator.

    Attributes:
        time: when it was sent.
        exchange: number of the exchange, from 0.
        method: HTTP method.
        target: path and query.
        body: without values of Secrets and tokens.
    """

    time: float
    exchange: int
    method: str
    target: str
    body: bytes = b""


class Responded(msgspec.Struct, frozen=True, kw_only=True, tag="response", omit_defaults=True):
    """The head of a response.

    Attributes:
        time: when it arrived.
        exchange: whose response it is.
        status: HTTP status.
        headers: those that the client reads.
    """

    time: float
    exchange: int
    status: int
    headers: dict[str, str] = {}


class Received(msgspec.Struct, frozen=True, kw_only=True, tag="data"):
    """Bytes of a response's body, after decompression: a whole answer, or a part of a watch."""

    time: float
    exchange: int
    data: bytes


class ExchangeEnded(msgspec.Struct, frozen=True, kw_only=True, tag="end", omit_defaults=True):
    """The end of an exchange.

    Attributes:
        time: when it ended.
        exchange: that ended.
        error: what ended it early: the class of an exception; empty if the response was complete.
    """

    time: float
    exchange: int
    error: str = ""


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag="skipped"):
    """Records that were not written, because the disk was too slow: a replay ends here."""

    time: float
    count: int


Record = RecordingBegan | ExchangeBegan | Responded | Received | ExchangeEnded | Skipped
