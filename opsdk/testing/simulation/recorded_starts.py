"""Recordings of a simulated run: one for each start of a replica, to be replayed without the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.builder.operator import Operator
from opsdk.recording.files import FileEncoder
from opsdk.recording.recorder import begin_recording, describe_start
from opsdk.recording.records import OperatorEnded, Record
from opsdk.rest.config import Config

__all__ = ["RecordedStart", "StartRecorder"]


class RecordedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The recording of one start of a replica.

    Attributes:
        records: in order; complete when the run has ended.
    """

    records: list[Record]

    def write(self, path: Path) -> None:
        """Write the recording to a file, for ``opsdk replay``."""
        encoder = FileEncoder()
        path.write_bytes(encoder.begin() + encoder.encode(*self.records) + encoder.end())


class StartRecorder:
    """Records every start of a replica, in virtual time.

    Attributes:
        starts: in order.
    """

    def __init__(self) -> None:
        self.starts: list[RecordedStart] = []

    def record(self, operator: Operator, config: Config) -> Callable[[], None]:
        """Record the operator that starts in this context. See `Observer.record`."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        start = describe_start(config, loop, operator=operator.name, seed=len(self.starts))
        began = msgspec.structs.replace(start, is_virtual=True)
        records: list[Record] = [began]
        self.starts.append(RecordedStart(records=records))
        recorder = begin_recording(records.append, began, loop)
        loop.on_time.append(recorder.observe_time)

        def stop() -> None:
            if recorder.observe_time in loop.on_time:
                loop.on_time.remove(recorder.observe_time)
            records.append(OperatorEnded(loop.iteration))

        return stop

    def __repr__(self) -> str:
        return f"<StartRecorder of {len(self.starts)} starts>"
