"""``ttl-after-finished``: delete finished Jobs after ttlSecondsAfterFinished.

Upstream: pkg/controller/ttlafterfinished (v1.36)
"""

from __future__ import annotations

from datetime import datetime

from envtest.controllers.controller import ObjectController
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
class TtlController(ObjectController):
    """``ttl-after-finished``: deletes Jobs after their time."""

    name = "ttl-after-finished"
    resource = JOBS

    async def sync(self, obj: JsonObject) -> float | None:
        remaining = seconds_left(obj, self.context.now())
        if remaining is None or remaining > 0:
            return remaining
        await self.write([DeleteWrite(JOBS, obj, "Foreground")])
        return None
