"""``ttl-after-finished``: delete finished Jobs after ttlSecondsAfterFinished.

Upstream: pkg/controller/ttlafterfinished (v1.36)
"""

from __future__ import annotations

from datetime import datetime

from envtest.controllers.controller import SimulatedController
from envtest.controllers.job import is_finished
from envtest.controllers.objects import conditions_of, deleting, parse_time
from envtest.controllers.writes import JOBS, DeleteWrite
from opsdk.structured_merge.value import JsonObject


# ------------------------------------------------------------------ core
def seconds_left(job: JsonObject, now: datetime) -> float | None:
    """Return the seconds until the job expires; None for jobs without a TTL."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or deleting(job) or not is_finished(job):
        return None
    ended = (c for c in conditions_of(job) if c["type"] in ("Complete", "Failed") and c["status"] == "True")
    since = next(parse_time(c["lastTransitionTime"]) for c in ended)
    return float(ttl - (now - since).total_seconds())


# ------------------------------------------------------------------ shell
class TtlController(SimulatedController):
    """``ttl-after-finished``: keys of Jobs."""

    name = "ttl-after-finished"

    def add_event_handlers(self) -> None:
        """Watch jobs."""
        self.informers.add_event_handler(JOBS, self.add)

    async def reconcile(self, key: str) -> float | None:
        """See `SimulatedController`."""
        job = self.informers.get(key)
        remaining = None if job is None else seconds_left(job, self.context.now())
        if job is None or remaining is None or remaining > 0:
            return remaining
        await self.write([DeleteWrite(JOBS, job, "Foreground")])
        return None
