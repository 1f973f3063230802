"""Cron schedules: the next time after a time. Pure.

Upstream: github.com/robfig/cron/v3 (the macros), which kube-controller-manager uses for CronJobs
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from opsdk.base.cron_macros import MACROS
from opsdk.base.extras import RequiredExtra
from opsdk.base.place import caller_place
from opsdk.errors import UsageError

__all__ = ["CronSchedule"]


class CronSchedule:
    """A cron schedule in a time zone. Needs the extra ``cron``.

    As in Debian's cron, a time that summer time skips occurs right after the change of the clocks, and a time that
    comes twice occurs once.

    For a schedule in the spec of an object::

        due = CronSchedule(job.spec.schedule).next(ctx.now)
        return Result(requeue_after=due - ctx.now)

    Args:
        text: minute, hour, day of month, month and day of week, such as ``"0 3 * * mon-fri"``; or ``@hourly``,
            ``@daily``, ``@weekly``, ``@monthly``, ``@yearly``.
        timezone: a name such as ``"Europe/Berlin"``, or a ``tzinfo``.

    Raises:
        UsageError: schedule or time zone is wrong.
        ConfigError: the extra is not installed.

    >>> from datetime import UTC
    >>> CronSchedule("@daily", timezone="Asia/Kolkata").next(datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
    '2026-01-02T00:00:00+05:30'
    """

    def __init__(self, text: str, *, timezone: str | tzinfo = "UTC") -> None:
        self.text = text
        self.zone = _zone(timezone)
        self._fields = MACROS.get(text.strip().lower(), text)
        with RequiredExtra("cron", "a cron schedule"):
            from cronsim import CronSim, CronSimError
        self._times = CronSim
        try:
            CronSim(self._fields, datetime.now(self.zone))
        except CronSimError as error:
            raise UsageError(
                f"{caller_place()}: {text!r} is not a cron schedule ({error}): "
                "write five fields, such as '0 3 * * mon-fri', or @hourly, @daily, @weekly, @monthly, @yearly"
            ) from error

    def next(self, after: datetime) -> datetime:
        """Return the first time of the schedule after an aware time, in the time zone of the schedule.

        Raises `UsageError` for a schedule that matches no time, such as the 31st of February.
        """
        try:
            due: datetime = next(self._times(self._fields, after.astimezone(self.zone)))
        except StopIteration:
            raise UsageError(f"{caller_place()}: the cron schedule {self.text!r} matches no time") from None
        return due

    def __repr__(self) -> str:
        return f"<CronSchedule {self.text}, {self.zone}>"


def _zone(timezone: str | tzinfo) -> tzinfo:
    if isinstance(timezone, tzinfo):
        return timezone
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise UsageError(
            f"{caller_place()}: timezone is {timezone!r}: pass an IANA name, such as 'Europe/Berlin'"
        ) from error
