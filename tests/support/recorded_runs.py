"""Simulated runs that are recorded: each start of a replica gives one recording."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.base.version import VERSION
from opsdk.builder.operator import Operator
from opsdk.recording.recorder import begin_recording
from opsdk.recording.records import OperatorEnded, Record, RecordingBegan
from opsdk.rest.config import Config


@dataclass
class RecordedRuns:
    """Records every start of a replica.

    Attributes:
        recordings: the records of each start.
    """

    recordings: list[list[Record]] = field(default_factory=list)

    def record(self, operator: Operator, config: Config) -> Callable[[], None]:
        """See `Observer.record`."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        records: list[Record] = []
        self.recordings.append(records)
        began = RecordingBegan(
            opsdk=VERSION,
            python=sys.version.partition(" ")[0],
            operator=operator.name,
            namespace=config.namespace,
            host=f"http://{config.endpoint.host}:{config.endpoint.port}",
            wall=loop.wall_origin,
            iteration=loop.iteration,
            time=loop.time(),
            seed=len(self.recordings),
            is_virtual=True,
        )
        records.append(began)
        recorder = begin_recording(records.append, began, loop)
        loop.on_time.append(recorder.observe_time)

        def stop() -> None:
            records.append(OperatorEnded(loop.iteration))

        return stop
