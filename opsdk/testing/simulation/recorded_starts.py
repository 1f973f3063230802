"""Recordings of a simulated run: one for each start of a replica, to be replayed without the simulation."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.builder.checkpoint import take_checkpoint
from opsdk.builder.operator import Operator
from opsdk.recording.files import FileEncoder
from opsdk.recording.recorder import begin_recording, describe_start
from opsdk.recording.records import CheckpointBegan, OperatorEnded, Record, RecordingBegan
from opsdk.rest.config import RestConfig

__all__ = ["RecordedStart", "StartRecorder"]


class RecordedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The recording of one start of a replica.

    Attributes:
        records: in order; complete when the run has ended.
    """

    records: list[Record]

    def checkpoints(self) -> Sequence[RecordedStart]:
        """Return the recordings that begin with a checkpoint of this one, in order."""
        began = self.records[0]
        assert isinstance(began, RecordingBegan)
        places = [place for place, record in enumerate(self.records) if isinstance(record, CheckpointBegan)]
        return [
            RecordedStart(records=[msgspec.structs.replace(began, file=number), *self.records[place:]])
            for number, place in enumerate(places, 1)
        ]

    def write(self, path: Path) -> None:
        """Write the recording to a file, for ``opsdk replay``."""
        encoder = FileEncoder()
        path.write_bytes(encoder.begin() + encoder.encode(*self.records) + encoder.end())


class StartRecorder:
    """Records every start of a replica, in virtual time.

    Args:
        checkpoint_period: seconds between two checkpoints.

    Attributes:
        starts: in order.
    """

    def __init__(self, checkpoint_period: float = math.inf) -> None:
        self.starts: list[RecordedStart] = []
        self._period = checkpoint_period

    def record(self, operator: Operator, config: RestConfig) -> Callable[[], None]:
        """Record the operator that starts in this context. See `Observer.record`."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        start = describe_start(config, loop, operator=operator.name, seed=len(self.starts))
        began = msgspec.structs.replace(start, is_virtual=True)
        # As in a recorded process: the operator's own code may draw from it.
        random.seed(began.seed)
        records: list[Record] = [began]
        self.starts.append(RecordedStart(records=records))
        recorder = begin_recording(records.append, began, loop)
        loop.on_time.append(recorder.observe_time)
        next_at = loop.time() + self._period

        def observe_idle() -> None:
            nonlocal next_at
            if loop.time() >= next_at and (checkpoint := take_checkpoint(operator, recorder)):
                records.extend(checkpoint)
                next_at = loop.time() + self._period

        loop.on_idle.append(observe_idle)

        def stop() -> None:
            if recorder.observe_time in loop.on_time:
                loop.on_time.remove(recorder.observe_time)
                loop.on_idle.remove(observe_idle)
            records.append(OperatorEnded(loop.iteration))

        return stop

    def __repr__(self) -> str:
        return f"<StartRecorder of {len(self.starts)} starts>"
