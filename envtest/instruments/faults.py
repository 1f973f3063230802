"""Faults on demand: the server misbehaves for chosen requests, as a real server can.

A rule has a `RequestMatch` (which requests), an effect, and a time: always, the n-th request, a number of requests, or
a probability. A server without rules has no overhead. Requests of the simulated controllers are unaffected unless a
rule names their user.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from envtest.instruments.effect import Effect, FaultScope
from opsdk.aio.randomness import seeded
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.filters import NamedFilter
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.apiserver.server import Server
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import CompactedError, LocalStorage
from opsdk.engine.writes import SIMULATED
from opsdk.errors import ConfigError
from opsdk.http.server.response import CutConnection, CutResponse, HttpResponse
from opsdk.http.server.server import WebServer

_FILTER = "faults"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READS = frozenset({"get", "list", "watch"})
_GROUPS = {"write": WRITES, "read": READS}


class RequestMatch(msgspec.Struct, frozen=True, kw_only=True):
    """Selects requests; an empty field matches any value.

    Attributes:
        verb: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete``, ``deletecollection``;
            ``read`` and ``write`` for all of a sort.
        group: the API group; None is any, empty the core group.
        resource: ``pods``, or ``pods/status``; ``pods`` alone does not mean its subresources.
        user: the user of the request; requests of simulated controllers match only with their user here.
    """

    verb: str = ""
    group: str | None = None
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""

    def matches(self, info: RequestInfo, user: str) -> bool:
        """Whether the rule selects this request."""
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        return (
            info.is_resource
            and (user == self.user if self.user else user not in SIMULATED)
            and (not self.verb or info.verb in _GROUPS.get(self.verb, (self.verb,)))
            and (self.group is None or info.group == self.group)
            and (not self.resource or resource == self.resource)
            and (not self.namespace or info.namespace == self.namespace)
            and (not self.name or info.name == self.name)
        )


@dataclass(slots=True, kw_only=True)
class FaultRule:
    """A fault rule in force; as a context manager it ends with the block.

    Attributes:
        nth: the number of the matching request that the fault hits, from 1; 0 is any.
        times: the largest number of requests that the fault hits; None is no limit.
        probability: the probability for each matching request.
        matched: matching requests up to now.
        hits: how many of them were hit.
    """

    match: RequestMatch
    effect: Effect
    nth: int = 0
    times: int | None = None
    probability: float = 1.0
    matched: int = 0
    hits: int = 0
    _remove: Callable[[FaultRule], None] | None = field(default=None, repr=False)

    def hits_request(self, call: Call, rng: random.Random) -> bool:
        """Count the request, and return whether the fault applies to it."""
        if not self.match.matches(call.info, call.user.name):
            return False
        self.matched += 1
        exhausted = self.times is not None and self.hits >= self.times
        if exhausted or (self.nth and self.matched != self.nth):
            return False
        if self.probability < 1.0 and rng.random() >= self.probability:
            return False
        self.hits += 1
        return True

    def remove(self) -> None:
        """Remove the rule; idempotent."""
        if self._remove is not None:
            self._remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Faults:
    """The fault rules of one environment.

    Attributes:
        rng: the random numbers of rules with a probability; see `seed`.
    """

    def __init__(self, server: Server, storage: LocalStorage, webs: Collection[WebServer]) -> None:
        self.rng = seeded(0)
        self._server = server
        self._storage = storage
        self._webs = webs
        self._rules: list[FaultRule] = []

    def __repr__(self) -> str:
        return f"<Faults: {len(self._rules)} rules>"

    @property
    def rules(self) -> list[FaultRule]:
        """The active rules, in the order in which they apply."""
        return list(self._rules)

    def seed(self, number: int) -> None:
        """Restart the random sequence."""
        self.rng.seed(number)

    def add(
        self,
        effect: Effect,
        *,
        verb: str = "",
        group: str | None = None,
        resource: str = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        nth: int = 0,
        times: int | None = None,
        probability: float = 1.0,
    ) -> FaultRule:
        """Add a rule, or add it for a block with ``with env.faults.add(...):``. See `RequestMatch` and `FaultRule`."""
        if not 0.0 <= probability <= 1.0:
            raise ConfigError(f"a probability lies between 0 and 1, not {probability}")
        match = RequestMatch(verb=verb, group=group, resource=resource, namespace=namespace, name=name, user=user)
        rule = FaultRule(match=match, effect=effect, nth=nth, times=times, probability=probability, _remove=self._drop)
        if not self._rules:
            self._server.add_filter(NamedFilter(_FILTER, self._filter))
        self._rules.append(rule)
        return rule

    def _drop(self, rule: FaultRule) -> None:
        self._rules = [r for r in self._rules if r is not rule]
        if not self._rules:
            self._server.remove_filter(_FILTER)

    def clear(self) -> None:
        """Remove every rule."""
        for rule in self.rules:
            self._drop(rule)

    async def _filter(self, call: Call, handler: Handler) -> HttpResponse:
        scope = FaultScope(rng=self.rng, storage=self._storage)
        for rule in reversed([r for r in self._rules if r.hits_request(call, self.rng)]):
            handler = partial(_with_effect, rule.effect, scope, handler)
        return await handler(call)

    # -------------------------------------------------------------- immediate faults
    def compact(self) -> None:
        """Compact the storage: lists and watches of older revisions fail with 410."""
        self._storage.compact(self._storage.current_rv)

    def expire_watches(self) -> None:
        """End every open watch with a 410 error event."""
        self._storage.compact(self._storage.current_rv)
        storage = self._memory()
        storage.fail_watches(lambda watch: CompactedError(watch.after, storage.current_rv))

    def drop_watches(self) -> None:
        """End every open watch, as after its timeout."""
        self._storage.end_watches()

    async def restart(self, downtime: float = 0.0) -> None:
        """Restart the server: connections are cut, acknowledged writes remain.

        For `downtime` seconds of the environment's clock connections are refused. Returns after that time.
        """
        self._memory().fail_watches(lambda _: CutConnection("the server restarts"))
        for web in self._webs:
            web.drop_connections()
        if downtime > 0:
            with self.add(_ServerDown()):
                await asyncio.sleep(downtime)

    def _memory(self) -> MemoryStorage:
        if not isinstance(self._storage, MemoryStorage):
            raise ConfigError(f"the watches of {self._storage!r} cannot be made to fail")
        return self._storage


class _ServerDown:
    """The effect of a server that does not run: no request gets a response."""

    async def apply(self, call: Call, handler: Handler, scope: FaultScope) -> HttpResponse:
        return CutResponse(0)


async def _with_effect(effect: Effect, scope: FaultScope, handler: Handler, call: Call) -> HttpResponse:
    return await effect.apply(call, handler, scope)
