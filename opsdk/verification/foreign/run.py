"""Runs a workload once against an operator in another process: without a disturbance, or with one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from opsdk.aio.tasks import until_set
from opsdk.base.options import Options
from opsdk.base.shortened import shortened
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.net_changes import is_ignored
from opsdk.engine.running_environment import RunningEnvironment
from opsdk.engine.world.disturber import WatchMessage
from opsdk.engine.world.exchange import CURRENT_EXCHANGE, Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.invariants import hot_loops
from opsdk.engine.world.rest_state import RestState, StateRecorder
from opsdk.engine.world.watch_events import watched_objects
from opsdk.engine.writes import Entry
from opsdk.errors import ApiError, NoMatchError, OpsdkError
from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.verification.checks import ObjectCheck
from opsdk.verification.disturbances import WRITES, DisturbanceKind
from opsdk.verification.foreign.child import ForeignOperator, OpenOperator
from opsdk.verification.foreign.disturber import ForeignDisturber, is_any_version_list, serve_past
from opsdk.verification.foreign.errors import ForeignOperatorError, WorkloadError
from opsdk.verification.foreign.launches import Launches
from opsdk.verification.foreign.places import (
    ForeignDisturbance,
    Moment,
    PlaceCounter,
    is_collection,
    resource_of,
    stable_state,
    storage_prefix,
)
from opsdk.verification.foreign.quiescence import Quiescence
from opsdk.verification.foreign.workload import UserStep, UserWorkload
from opsdk.verification.objects import USER
from opsdk.verification.state_comparison import Mask, mask_of, state_violations

__all__ = [
    "ForeignOutcome",
    "ForeignReference",
    "ForeignSubject",
    "Timing",
    "reference_of",
    "run_foreign",
]

_POLL_SECONDS: Final = 0.1
_LEAST_QUIET: Final = 0.3
_REACTIONS: Final = 2.0
"""A disturbed run is quiet after so many times the longest reaction of the undisturbed ones. A state that differs then
has the patience of `Timing`, so a shorter pause makes no false bug."""
_AROUND: Final = 6
"""Requests before and after the disturbed one that a report shows."""
_VERSION: Final = b'"resourceVersion"'
_SHOWN_BODY: Final = 120
"""Characters of a line of output that a report shows."""
_REFUSED: Final = (400, 403, 409, 422)


class Timing(Options, frozen=True, kw_only=True):
    """Real seconds.

    Attributes:
        quiet: without a write, after which the operator is at rest in a run without a disturbance. It is the longest
            pause of the others, see `quiet_after`.
        patience: in which an operator at rest must reach the state of the reference run: its next retry may be late.
            kopf tries a failed handler again after 60 seconds.
        start: in which the operator must send its first request, and open its watches again after a crash.
        calm: in which it must come to rest.
    """

    quiet: float = 2.0
    patience: float = 75.0
    start: float = 30.0
    calm: float = 120.0

    def quiet_after(self, reaction: float) -> float:
        """Return the pause of an operator whose longest reaction is known.

        >>> timing = Timing()
        >>> timing.quiet_after(0.01), timing.quiet_after(0.5), timing.quiet_after(1.5)
        (0.3, 1.0, 2.0)
        """
        return min(self.quiet, max(_LEAST_QUIET, _REACTIONS * reaction))

    @property
    def stale(self) -> float:
        """After which a view that is held back moves on: longer than a rest, so that the next step meets it."""
        return 3 * self.quiet + 5.0


@dataclass(frozen=True, kw_only=True)
class ForeignSubject:
    """What is verified.

    Attributes:
        environment: makes the API server of a run.
        open_operator: prepares the operator of a run.
        checks: that hold at rest.
        timing: real seconds.
        watches: the operator opens a watch when it starts; False if it is known that it does not.
    """

    environment: Callable[[], AbstractAsyncContextManager[RunningEnvironment]]
    open_operator: OpenOperator
    checks: Sequence[ObjectCheck] = ()
    timing: Timing = Timing()
    watches: bool = True


class ForeignOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run.

    Attributes:
        violations: the broken invariants, each with its name before a colon.
        writes: of the operator, in the order in which they were sent.
        messages: of its watches, those with objects.
        states: at rest, by the number of steps before; none where the view of the operator was stale.
        entries: the stored writes, each with whether the operator sent it.
        moments: of the steps.
        watched: paths that the operator watched at its first rest.
        any_version: paths that it listed at any version.
        unserved: paths of kinds that are not served.
        missing: paths of objects that it read in vain again and again, and that nothing creates.
        locked: numbers of the writes with a resource version: only these may meet a conflict.
        reaction: the longest time in seconds from what the operator could see to its next write, after its start.
        happened: whether the disturbance was reached.
        requests: around the disturbed one.
        log: the last lines of the operator's output.
    """

    violations: Sequence[str]
    writes: Sequence[Exchange]
    messages: Sequence[WatchMessage]
    states: Mapping[int, RestState]
    entries: Sequence[tuple[Entry, bool]]
    moments: Sequence[Moment]
    watched: frozenset[str]
    any_version: frozenset[str]
    unserved: Sequence[str]
    missing: Sequence[str]
    locked: frozenset[int]
    reaction: float
    happened: bool
    requests: Sequence[str]
    log: Sequence[str]


class ForeignReference(msgspec.Struct, frozen=True, kw_only=True):
    """The undisturbed runs of a workload.

    Attributes:
        outcome: of the first one.
        states: at rest, by the number of steps before.
        masks: what the two do not have in common.
        names: paths of requests and keys of objects that both have.
        reaction: the longest one of both.
    """

    outcome: ForeignOutcome
    states: Mapping[int, RestState]
    masks: Mapping[int, Mask]
    names: frozenset[str]
    reaction: float

    def differences(self, number: int, state: RestState, *, counted: bool) -> list[str]:
        """Return how a state at rest differs: see `state_violations`."""
        stable = stable_state(state, self.names)
        return state_violations(self.states[number], stable, self.masks[number], counted=counted)


def reference_of(first: ForeignOutcome, second: ForeignOutcome) -> ForeignReference:
    """Return what two undisturbed runs have in common."""
    names = _names(first) & _names(second)
    states, others = ({n: stable_state(state, names) for n, state in run.states.items()} for run in (first, second))
    masks = {number: mask_of(states[number], state) for number, state in others.items()}
    reaction = max(first.reaction, second.reaction)
    return ForeignReference(outcome=first, states=states, masks=masks, names=names, reaction=reaction)


def _names(outcome: ForeignOutcome) -> frozenset[str]:
    """Return the paths of writes, the objects of messages, and the keys of states."""
    paths = {write.path for write in outcome.writes}
    keys = {key for message in outcome.messages for key in message.keys}
    return frozenset(paths.union(keys, *(state.keys for state in outcome.states.values())))


async def run_foreign(
    subject: ForeignSubject, workload: UserWorkload, disturbance: ForeignDisturbance | None = None, *,
    reference: ForeignReference | None = None, known_violations: Collection[str] = (),
) -> ForeignOutcome:  # fmt: skip
    """Run a workload in real time.

    Args:
        subject: what is verified.
        workload: its steps.
        disturbance: what goes wrong; None for a reference run.
        reference: what the run is compared with.
        known_violations: of earlier runs. A run that shows no others ends without the patience of `Timing`.

    Raises:
        ForeignOperatorError: the command cannot be started, or the reference run tells nothing.
        WorkloadError: the API server refuses a step of the reference run.
    """
    return await _ForeignRun(subject, workload, disturbance, reference, known_violations).run()


class _ForeignRun:
    def __init__(
        self, subject: ForeignSubject, workload: UserWorkload, disturbance: ForeignDisturbance | None,
        reference: ForeignReference | None, known_violations: Collection[str],
    ) -> None:  # fmt: skip
        self._subject, self._workload, self._disturbance = subject, workload, disturbance
        self._reference, self._known_violations = reference, known_violations
        self._timing = subject.timing
        quiet = self._timing.quiet if reference is None else self._timing.quiet_after(reference.reaction)
        self._quiescence = Quiescence(quiet=quiet, longest=subject.timing.calm)
        self._disturber = ForeignDisturber(
            disturbance,
            hide=self._hide,
            stale_seconds=subject.timing.stale,
        )
        self._launches = Launches(
            self._server, decide=self._decide, hold=self._hold, on_exchange=self._on_exchange,
            on_end=self._quiescence.ended,
        )  # fmt: skip
        self._places = PlaceCounter(None if reference is None else reference.names)
        self._state = StateRecorder()
        self._entries: list[tuple[Entry, bool]] = []
        self._exchanges: list[Exchange] = []
        self._writes: list[Exchange] = []
        self._messages: list[WatchMessage] = []
        self._counts: dict[str, int] = {}
        self._states: dict[int, RestState] = {}
        self._moments: list[Moment] = []
        self._watched: frozenset[str] = frozenset()
        self._app: App
        self._client: Client
        self._operator: ForeignOperator

    async def run(self) -> ForeignOutcome:
        subject = self._subject
        async with AsyncExitStack() as stack:
            env = await stack.enter_async_context(subject.environment())
            assert env.config.app is not None
            self._app = env.config.app
            env.journal.subscribe(self._on_entry)
            users = replace(env.config, user_agent=f"{USER}/1")
            self._client = (await stack.enter_async_context(Cluster(users))).uncached
            self._operator = await stack.enter_async_context(subject.open_operator(env, self._launches))
            await stack.enter_async_context(self._launches)
            await self._launches.begin(self._operator)
            stack.callback(self._disturber.release)
            return self._outcome(await self._until_failed(self._play()))

    def _outcome(self, violations: Sequence[str]) -> ForeignOutcome:
        loops = [] if self._is_view_disturbed else hot_loops(self._exchanges)
        unserved = {
            exchange.path: None
            for exchange in self._exchanges
            if exchange.method == "GET" and exchange.status == 404 and is_collection(exchange.path)
        }
        return ForeignOutcome(
            violations=[*violations, *loops],
            writes=self._writes,
            messages=self._messages,
            states=self._states,
            entries=self._entries,
            moments=self._moments,
            watched=self._watched,
            any_version=frozenset(each.path for each in self._exchanges if is_any_version_list(each)),
            unserved=list(unserved),
            missing=list(self._missing()),
            reaction=self._quiescence.reaction,
            locked=frozenset(number for number, each in enumerate(self._writes, 1) if _VERSION in each.body),
            happened=self._disturber.happened_at is not None,
            requests=self._requests_around(),
            log=self._operator.log_lines(),
        )

    def _missing(self) -> Iterator[str]:
        """Yield the objects that the operator read at least twice, and that never existed."""
        reads = Counter(
            exchange.path for exchange in self._exchanges if exchange.method == "GET" and exchange.status == 404
        )
        stored = {entry.key for entry, _ in self._entries}
        for path, count in reads.items():
            name = resource_of(path).name
            if count > 1 and name and f"{storage_prefix(path)}{name}" not in stored:
                yield path

    # -------------------------------------------------------------- the steps
    async def _until_failed(self, play: Coroutine[Any, Any, list[str]]) -> list[str]:
        """Return the violations of a run. It ends early if the operator ends by itself."""
        violations = await until_set(self._launches.failed, play)
        return self._failure() if violations is None else violations

    def _failure(self) -> list[str]:
        launches = self._launches
        if launches.error is not None:
            raise launches.error
        status = launches.status
        ended = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        # A disturbed run that ends before its disturbance is no bug: its ports may be those of a parallel run.
        if self._disturber.step < 0 and self._disturber.happened_at is None:
            advice = "it must run until it is killed, in the foreground; write {port} for each port that it listens on"
            background = ", and left processes in the background" if self._operator.is_in_background() else ""
            raise self._error(f"the operator ended with {ended} before the first step{background}: {advice}")
        return [f"crash: the operator ended by itself, with {ended}"]

    async def _play(self) -> list[str]:
        """Take the steps, each at rest, and return the violations."""
        if violations := await self._begin():
            return violations
        for number, step in enumerate(self._workload.steps):
            violations = await self._compare(number) or await self._take(number, step)
            if violations:
                return violations
            if self._disturber.on_rest() and (violations := await self._rest()):
                return violations
        return await self._release() or await self._compare(len(self._workload.steps))

    async def _begin(self) -> list[str]:
        """Wait until the operator runs."""
        timing = self._timing
        try:
            async with asyncio.timeout(timing.start):
                await self._launches.contacted.wait()
        except TimeoutError:
            raise self._error(
                f"the operator did not contact the API server within {timing.start:g} s: it must use KUBECONFIG, "
                "or {kubeconfig} in its words"
            ) from None
        if self._reference is None:
            await self._until_watching()
        violations = await self._rest()
        # What a program does at its start takes longer than a reaction.
        self._quiescence.reaction = 0.0
        self._watched = frozenset(self._launches.watched)
        return violations

    async def _until_watching(self) -> None:
        """Wait for the first watch: a program may need long between its first request and that."""
        if self._subject.watches:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.start):
                    await self._launches.watching.wait()

    async def _take(self, number: int, step: UserStep) -> list[str]:
        """Take a step. Returns what the server refused in a disturbed run."""
        self._disturber.step = number
        before = self._revision
        problem = await self._try(number, step)
        if problem and self._disturber.is_stale:
            # The step needs an object of the operator, which does not see yet that it must create it.
            problem = await self._release() or await self._compare(number) or await self._try(number, step)
        if problem:
            return problem
        by_user = (entry.revision for entry, _ in reversed(self._entries) if entry.writer.manager == USER)
        written = max(next(by_user, 0), before)
        violations = await self._rest()
        self._moments.append(Moment(before, written, self._revision))
        return violations or await self._restart_into_past(number)

    async def _try(self, number: int, step: UserStep) -> list[str]:
        try:
            await step.take(self._client, seconds=self._gone_seconds)
        except (ApiError, NoMatchError) as error:
            if isinstance(error, ApiError) and error.code in _REFUSED and self._workload.tolerant:
                return []
            text = f"step {number + 1} of {self._workload.name}, {step}: {error}"
            if self._reference is None:
                raise WorkloadError(text) from error
            return [f"workload: {text}"]
        except OpsdkError as error:
            return [f"workload: step {number + 1}, {step}: {error}"]
        return []

    @property
    def _gone_seconds(self) -> float:
        """In which a deleted object must be gone."""
        timing = self._timing
        return timing.calm if self._reference is None else min(timing.patience + timing.stale, timing.calm)

    async def _restart_into_past(self, number: int) -> list[str]:
        """Restart the operator on an old view, if this is the step to do so."""
        disturbance = self._disturbance
        if disturbance is None or disturbance.kind is not DisturbanceKind.PAST or disturbance.step != number:
            return []
        moment = self._moments[disturbance.past]
        revision = moment.settled if disturbance.settled else moment.written
        self._disturber.begin_past(disturbance.path, revision)
        self._launches.restart()
        return await self._rest() or await self._release()

    # -------------------------------------------------------------- at rest
    async def _rest(self) -> list[str]:
        """Wait until nothing was written for a while. Returns a violation if that does not happen."""
        loop, rest = asyncio.get_running_loop(), self._quiescence
        rest.begin(begin := loop.time())
        while True:
            now = loop.time()
            if self._is_ready(now - begin) and rest.is_reached(now):
                return []
            if rest.is_overdue(now):
                return [self._restless()]
            await asyncio.sleep(_POLL_SECONDS)

    def _is_ready(self, seconds: float) -> bool:
        """Whether the operator is back after a crash: it watches what it watched, or has had the time."""
        expected = frozenset[str]() if self._reference is None else self._reference.outcome.watched
        back = self._launches.contacted.is_set() and expected <= self._launches.watched
        return back or seconds > self._timing.start

    def _restless(self) -> str:
        recent = [exchange for exchange in self._writes if exchange.revision][-_AROUND:]
        paths = ", ".join(dict.fromkeys(f"{each.method} {each.path}" for each in recent)) or "other programs"
        return (
            f"calm: it goes on writing after {self._timing.calm:g} s ({paths}): it must compare before it writes, or "
            "pass a shorter --quiet than its period"
        )

    async def _release(self) -> list[str]:
        """Let the operator see everything, and come to rest."""
        was_stale = self._disturber.is_stale
        self._disturber.release()
        return await self._rest() if was_stale else []

    async def _compare(self, number: int) -> list[str]:
        """Record the state at rest. Returns what differs from the reference run, and keeps to differ."""
        if self._disturber.is_stale or self._disturber.has_missed:
            return []
        loop, timing = asyncio.get_running_loop(), self._timing
        begin = loop.time()
        while True:
            state = self._state.current()
            violations = [*self._differences(number, state), *await self._check(number)]
            if not violations:
                self._states[number] = state
                return []
            is_known = set(violations) <= set(self._known_violations)
            has_time = loop.time() - begin < (timing.quiet if is_known else timing.patience)
            if not has_time or any(each.startswith("creations and deletions") for each in violations):
                return violations
            await asyncio.sleep(_POLL_SECONDS * 5)

    def _differences(self, number: int, state: RestState) -> list[str]:
        if self._reference is None:
            return []
        return self._reference.differences(number, state, counted=not self._is_view_disturbed)

    @property
    def _is_view_disturbed(self) -> bool:
        """Whether the disturbance holds events back: then a child of a deleted owner may be created and collected."""
        kind = self._disturber.kind
        return kind is not None and kind not in WRITES and kind is not DisturbanceKind.PAST

    async def _check(self, number: int) -> list[str]:
        """Return which checks do not hold after some steps. After a harmful one they need not."""
        if number and self._workload.steps[number - 1].is_harmful:
            return []
        texts = [text for check in self._subject.checks for text in await check.violations(self._client)]
        return [f"check: {text}" for text in texts]

    @property
    def _revision(self) -> int:
        return self._entries[-1][0].revision if self._entries else 0

    # -------------------------------------------------------------- requests
    async def _server(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the operator: what is behind its link."""
        exchange, disturbance = CURRENT_EXCHANGE.get(), self._disturbance
        revision = self._disturber.past_revision
        is_past = revision and exchange is not None and disturbance is not None and exchange.path == disturbance.path
        if is_past and exchange is not None and is_any_version_list(exchange):
            self._disturber.see_past(exchange)
            await serve_past(self._app, revision, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _on_exchange(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)
        self._quiescence.sent(exchange)
        if exchange.is_watch and not exchange.is_lease:
            self._quiescence.note(exchange.time)

    async def _decide(self, exchange: Exchange) -> Fault | None:
        if not exchange.changes_state:
            return None
        self._writes.append(exchange)
        path, occurrence = self._places.write(exchange.method, exchange.path)
        return self._disturber.decide(exchange, path, occurrence)

    async def _hold(self, exchange: Exchange, body: bytes) -> bool:
        keys = tuple(each.key for each in watched_objects(body))
        if exchange.is_lease or exchange.is_event or not keys:
            return True
        number = self._counts[exchange.path] = self._counts.get(exchange.path, 0) + 1
        message = WatchMessage(path=exchange.path, number=number, keys=keys, action=self._disturber.step)
        self._messages.append(message)
        key, occurrence = self._places.message(exchange.path, keys)
        is_delivered = await self._disturber.hold(exchange, key, occurrence)
        if is_delivered:
            self._quiescence.note(asyncio.get_running_loop().time())
        return is_delivered

    def _hide(self, path: str) -> asyncio.Event:
        return self._launches.link.hide(path)

    def _on_entry(self, entry: Entry) -> None:
        exchange = CURRENT_EXCHANGE.get()
        own = exchange is not None
        if is_ignored(entry):
            return
        if exchange is not None:
            exchange.revision = entry.revision
        self._quiescence.note(asyncio.get_running_loop().time())
        self._entries.append((entry, own))
        self._state.add(entry, own=own, client=exchange.client if exchange is not None else "")
        self._disturber.on_entry(entry, own=own)

    # -------------------------------------------------------------- the report
    def _requests_around(self) -> list[str]:
        """Return the requests around the disturbed one, or the last ones, without watches, leases and events."""
        requests = [each for each in self._exchanges if not (each.is_watch or each.is_lease or each.is_event)]
        place = self._disturber.place
        index = len(requests)
        if place is not None:
            index = next((i for i, each in enumerate(requests) if each.time >= place.time), len(requests))
        begin = requests[0].time if requests else 0.0
        return list(_request_lines(requests[max(index - _AROUND, 0) : index + _AROUND + 1], begin))

    def _error(self, text: str) -> ForeignOperatorError:
        lines = "".join(f"\n  {line}" for line in self._operator.log_lines())
        return ForeignOperatorError(f"{text}{lines}")


def _request_lines(exchanges: Iterable[Exchange], begin: float) -> Iterable[str]:
    for each in exchanges:
        fault = f" {each.fault}" if each.fault else ""
        body = f" {_shown_body(each.body)}" if each.is_write and each.body else ""
        yield f"+{each.time - begin:.1f} s {each.method} {each.target}: {each.status or 'no answer'}{fault}{body}"


def _shown_body(body: bytes) -> str:
    """Return the beginning of a body of JSON or YAML; of another one, such as protobuf, its size.

    >>> _shown_body(b'{"kind":"Pod"}'), _shown_body(bytes([107, 56, 115, 0]))
    ('{"kind":"Pod"}', '(4 bytes, not text)')
    """
    text = body.decode(errors="replace")
    if "\ufffd" in text or not all(char.isprintable() or char.isspace() for char in text):
        return f"({len(body)} bytes, not text)"
    return shortened(text, _SHOWN_BODY)
