"""The loop of leader election.

Upstream: k8s.io/client-go/tools/leaderelection/leaderelection.go (v1.36)
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from enum import Enum
from typing import Final

from opsdk.aio.clock import monotonic, time_source, utc_now
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.randomness import loop_random, loop_uuid4
from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.client.client import Client
from opsdk.client.recorder.recorder import EventRecorder
from opsdk.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    LeaderElectionLostError,
    NotFoundError,
    OpsdkError,
    TransportError,
)
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions, LeaderElectionRules, Role
from opsdk.telemetry.records import Leadership, RenewedSlowly, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

ELECTION_SLEEP: Final = "lease "
"""The first word of the name of the sleep between two tries."""
# Jitter spreads the attempts of waiting replicas (JitterFactor in client-go).
_JITTER = 1.2


class _AttemptResult(Enum):
    HELD = "ours"
    HELD_BY_OTHER = "theirs"
    FAILED = "failed"


def default_identity() -> str:
    """Return a unique name for this replica: ``<hostname>_<uuid>``."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{loop_uuid4()}"


class LeaderElector:
    """Takes part in an election until it is cancelled or loses the lease. A `Fence` for writes that need leadership.

    Args:
        client: reads and writes the Lease; it must not read from a cache.
        options: the Lease and the times.
        hook: receives `Leadership` records.
        explain: returns text for the error of a lost lease, such as a blocked event loop; empty for none.
        recorder: writes Events about the Lease, "became leader" and "stopped leading". `run` opens it, the
            caller closes it.

    Attributes:
        may_acquire: called before each try to acquire the lease; False leaves it to other replicas.
    """

    def __init__(
        self,
        client: Client,
        options: LeaderElectionOptions,
        *,
        hook: TelemetryHook | None = None,
        explain: Callable[[], str] = str,
        recorder: EventRecorder | None = None,
    ) -> None:
        self.options = options
        self.rules = LeaderElectionRules(options)
        self._client = client
        self._now = monotonic
        self._explain = explain
        self._recorder = recorder
        self.may_acquire: Callable[[], bool] = lambda: True
        self._hook = hook or TelemetryHook()
        self._elected = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now, by its own clock."""
        return self.rules.is_leading(self._now())

    def as_json(self) -> dict[str, object]:
        """Return the lease as last observed, with a JSON form. Works from any thread."""
        return {
            "name": self.options.name,
            "namespace": self.options.namespace,
            "identity": self.options.identity,
            "holder": self.rules.holder,
            "expires_seconds": self.rules.expires_at() - self._now() if self.rules.holder else None,
            "lease_duration": self.options.lease_duration,
        }

    def check(self, action: str) -> None:
        """See `opsdk.aio.fence.Fence`. Works from any thread while `run` runs, and afterwards."""
        if not self.is_leader:
            raise LeaderElectionLostError(
                f"{action} was not sent: {self.options.identity} does not hold the lease {self._lease_name} "
                f"(last observed holder: {self.rules.holder or 'none'}); another replica may already lead"
            )

    async def wait_elected(self) -> None:
        """Return when this replica leads."""
        await self._elected.wait()

    async def run(self) -> None:
        """Acquire the lease and renew it until cancelled. Does not release it; see `release`.

        Raises:
            LeaderElectionLostError: the lease could not be renewed in time.
        """
        self._now = time_source()
        if self._recorder is not None:
            self._recorder.open()
        self._record(leading=False)
        try:
            await self._acquire()
            self._elected.set()
            self._record(leading=True)
            log.info("%s became leader of %s", self.options.identity, self._lease_name)
            self._write_event("became leader")
            await self._renew()
        finally:
            self._record(leading=False)
            if self._elected.is_set():
                self._write_event("stopped leading")

    def abandon(self) -> None:
        """Stop leading at once without a release: other replicas wait until the lease has expired."""
        self.rules.role = Role.LOST

    async def release(self) -> None:
        """Release the lease if this replica holds it, so that the next leader need not wait.

        Call it after everything that needs leadership has stopped. A failure is logged; the lease then expires.
        """
        if self.rules.role is not Role.LEADING:
            return
        self.rules.role = Role.LOST
        for _ in range(3):
            lease = self.rules.released(utc_now())
            if lease is None:
                return
            try:
                async with asyncio.timeout(self.options.try_timeout):
                    if await self._write_released(lease):
                        return
            except (OpsdkError, TimeoutError) as error:
                reason = str(error) or "the request timed out"
                log.warning("cannot release the lease %s, it will expire: %s", self._lease_name, reason)
                return

    async def _write_released(self, lease: Lease) -> bool:
        """Make one attempt. Returns False if the lease has changed; then it is observed again."""
        try:
            await self._client.update(lease)
        except ConflictError:
            self.rules.observed(await self._read(), monotonic())
            return False
        log.info("%s released the lease %s", self.options.identity, self._lease_name)
        return True

    # -------------------------------------------------------------- the loop
    async def _acquire(self) -> None:
        """Return when this replica leads. Raises `LeaderElectionLostError` if the response came too late."""
        last_holder = ""
        while True:
            held = self.may_acquire() and await self._try_with_timeout(self.options.try_timeout) is _AttemptResult.HELD
            if held and self.rules.role is not Role.WAITING:
                # The response may have come too late, for example because the event loop was blocked.
                if self.rules.check(self._now()) is Role.LOST:
                    raise LeaderElectionLostError(self._reason_of_loss())
                return
            if self.rules.holder and self.rules.holder != last_holder:
                last_holder = self.rules.holder
                log.info("waiting for the lease %s, held by %s", self._lease_name, last_holder)
            jittered = self.options.retry_period * (1 + _JITTER * loop_random().random())
            # client-go waits for its next try; a standby that wakes when it may lead does so sooner.
            remaining = (self.rules.leads_from() if held else self.rules.expires_at()) - monotonic()
            await self._sleep(min(jittered, remaining) if remaining > 0 else jittered)

    async def _renew(self) -> None:
        """Renew the lease in each period. Raises `LeaderElectionLostError`; it does not return."""
        await self._sleep_until(monotonic() + self.options.retry_period)
        while True:
            began = monotonic()
            self.rules.trying(began)
            remaining = self.rules.deadline() - began
            outcome = (
                await self._try_with_timeout(min(remaining, self.options.try_timeout))
                if remaining > 0
                else _AttemptResult.FAILED
            )
            if outcome is _AttemptResult.HELD_BY_OTHER:
                self.rules.role = Role.LOST
            if self.rules.check(self._now()) is Role.LOST:
                raise LeaderElectionLostError(self._reason_of_loss())
            # After a try that took longer than a period, the next one starts immediately, as in client-go.
            await self._sleep_until(began + self.options.retry_period)

    async def _sleep_until(self, at: float) -> None:
        """Sleep until `at`, but not longer than leadership lasts."""
        await self._sleep(min(at, self.rules.deadline()) - monotonic())

    async def _sleep(self, seconds: float) -> None:
        await named_sleep(f"{ELECTION_SLEEP}{self._lease_name}", seconds)

    def _reason_of_loss(self) -> str:
        reason = (
            f"leader election lost: {self.options.identity} could not renew {self._lease_name} "
            f"within {self.options.renew_deadline:g} s (holder: {self.rules.holder})"
        )
        explanation = self._explain()
        return f"{reason}; {explanation}" if explanation else reason

    async def _try_with_timeout(self, seconds: float) -> _AttemptResult:
        """Try to acquire or renew the lease within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._try_acquire_or_renew()
        except (OpsdkError, TimeoutError) as error:
            level = logging.WARNING if isinstance(error, TransportError | TimeoutError) else logging.ERROR
            log.log(level, "cannot take or renew the lease %s: %s", self._lease_name, self._describe(error))
            return _AttemptResult.FAILED

    def _describe(self, error: OpsdkError | TimeoutError) -> str:
        if isinstance(error, ForbiddenError):
            o = self.options
            return (
                f"{error}; the election needs this permission in the namespace {o.namespace} ({o.namespace_source}): "
                "run with --leader-election-namespace for another one, or apply the roles that "
                "opsdk generate rbac --flag leader-elect prints"
            )
        return str(error) or "the request timed out"

    async def _try_acquire_or_renew(self) -> _AttemptResult:
        """Read the lease if needed, and write it if this replica may hold it."""
        if self.rules.role is Role.LEADING:
            # Fast path of client-go: update the last observed lease without reading it.
            try:
                return await self._write()
            except (ConflictError, NotFoundError):
                log.info("another client changed the lease %s; reading it again", self._lease_name)
                self._hook.record(RenewedSlowly(name=self.options.name))
        try:
            self.rules.observed(await self._read(), monotonic())
        except NotFoundError:
            if not self.rules.can_create(monotonic()):
                return _AttemptResult.HELD_BY_OTHER
            return await self._create()
        if not self.rules.can_acquire(monotonic()):
            return _AttemptResult.HELD_BY_OTHER
        try:
            return await self._write()
        except ConflictError:
            return _AttemptResult.HELD_BY_OTHER if self.rules.role is Role.WAITING else _AttemptResult.FAILED

    async def _read(self) -> Lease:
        return await self._client.get(Lease, ObjectKey(self.options.namespace, self.options.name), uncached=True)

    async def _create(self) -> _AttemptResult:
        fresh = LeaderElectionRules(self.options).desired_record(utc_now())
        requested_at = monotonic()
        self.rules.replaces()
        try:
            created = await self._client.create(fresh)
        except AlreadyExistsError:
            # Another replica was faster. A leader must know at once: both would write until its next try.
            self.rules.observed(await self._read(), monotonic())
            is_free = self.rules.can_acquire(monotonic())
            return _AttemptResult.FAILED if is_free else _AttemptResult.HELD_BY_OTHER
        self.rules.acquired(created, requested_at, monotonic())
        return _AttemptResult.HELD

    async def _write(self) -> _AttemptResult:
        requested_at = monotonic()
        updated = await self._client.update(self.rules.desired_record(utc_now()))
        self.rules.acquired(updated, requested_at, monotonic())
        return _AttemptResult.HELD

    # -------------------------------------------------------------- reporting
    @property
    def _lease_name(self) -> str:
        return f"{self.options.namespace}/{self.options.name}"

    def _record(self, *, leading: bool) -> None:
        self._hook.record(Leadership(name=self.options.name, leading=leading))

    def _write_event(self, text: str) -> None:
        """Record an Event. It is written in the background: a renewal must not wait for it."""
        lease = self.rules.observed_lease
        if self._recorder is not None and lease is not None:
            self._recorder.event(lease, "Normal", "LeaderElection", f"{self.options.identity} {text}")

    def __repr__(self) -> str:
        return f"<LeaderElector {self._lease_name} {self.rules!r}>"
