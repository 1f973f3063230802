"""Which resource serves a kind, with as few requests as possible."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from opsdk.apimachinery.gvk import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapper, RestMapping, ServedResource, StaticMapper
from opsdk.errors import NoMatchError, ServiceUnavailableError


def mapping(group: str, version: str, kind: str, short: Sequence[str] = ()) -> RestMapping:
    """How a kind is served."""
    plural = f"{kind.lower()}s"
    return RestMapping(
        gvk=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, plural),
        namespaced=True,
        singular=kind.lower(),
        short_names=tuple(short),
    )


POD = mapping("", "v1", "Pod", ["po"])
SITE = mapping("demo.opsdk.dev", "v1", "Site")
SITE2 = mapping("demo.opsdk.dev", "v2", "Site")
METRIC = mapping("metrics.k8s.io", "v1beta1", "Metric")


class Server:
    """Discovery under the test's control."""

    def __init__(self, *served: RestMapping, seconds: float = 0.1) -> None:
        self.served = list(served)
        self.failing: dict[GroupVersion, str] = {}
        self.down: Exception | None = None
        self.fetches = 0
        self.in_flight = 0
        self.seconds = seconds

    async def fetch(self) -> ServedResource:
        self.fetches += 1
        self.in_flight += 1
        assert self.in_flight == 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        if self.down is not None:
            raise self.down
        mappings = [m for m in self.served if m.gvk.group_version not in self.failing]
        return ServedResource(mappings=mappings, failures=dict(self.failing))


@pytest.mark.behaviour(140)
async def test_one_fetch_at_first_none_after() -> None:
    """Concurrent lookups of any kinds cause one discovery fetch."""
    server = Server(POD, SITE)
    mapper = RestMapper(server)
    result = await asyncio.gather(*(mapper.mapping_for(m.gvk) for m in [POD, SITE] * 20))
    assert result == [POD, SITE] * 20
    await mapper.mapping_for(POD.gvk)
    assert server.fetches == 1


@pytest.mark.behaviour(140)
async def test_a_kind_created_later_is_found() -> None:
    """An unknown kind causes a refresh; asked again within a second it does not."""
    server = Server(POD)
    mapper = RestMapper(server)
    for _ in range(5):
        with pytest.raises(NoMatchError, match="install its CRD"):
            await mapper.mapping_for(SITE.gvk)
    assert server.fetches == 1
    server.served.append(SITE)
    await asyncio.sleep(2)
    assert await mapper.mapping_for(SITE.gvk) == SITE
    assert server.fetches == 2


async def test_unknown_kinds_do_not_hold_back_each_other() -> None:
    """The pause after a refresh is each kind's own."""
    server = Server(POD)
    mapper = RestMapper(server)
    for n in range(3):
        with pytest.raises(NoMatchError):
            await mapper.mapping_for(GroupVersionKind("x", "v1", f"Kind{n}"))
    assert server.fetches == 3


@pytest.mark.behaviour(140)
async def test_a_removed_version_is_forgotten() -> None:
    """The next refresh forgets a removed version, and the error names the served ones."""
    server = Server(SITE, SITE2)
    mapper = RestMapper(server)
    await mapper.mapping_for(SITE.gvk)
    server.served = [SITE2]
    await mapper.refresh()
    with pytest.raises(NoMatchError, match="but versions v2 of it"):
        await mapper.mapping_for(SITE.gvk)


@pytest.mark.behaviour(140)
async def test_a_failing_group_keeps_its_known_kinds() -> None:
    """When an aggregated API fails, its known kinds stay, other groups update, and unknown kinds give the reason."""
    server = Server(POD, METRIC)
    mapper = RestMapper(server)
    await mapper.mapping_for(METRIC.gvk)
    server.failing = {GroupVersion("metrics.k8s.io", "v1beta1"): "503"}
    server.served.append(SITE)
    assert await mapper.mapping_for(SITE.gvk) == SITE
    assert await mapper.mapping_for(METRIC.gvk) == METRIC
    with pytest.raises(NoMatchError, match=r"cannot determine .*v1beta1 failed: 503"):
        await mapper.mapping_for(GroupVersionKind("metrics.k8s.io", "v1beta1", "Other"))
    server.failing = {}
    server.served = [POD]
    await mapper.refresh()
    with pytest.raises(NoMatchError):
        await mapper.mapping_for(METRIC.gvk)


async def test_a_failed_fetch_reaches_every_waiter() -> None:
    """A failed fetch is raised to every waiter, known kinds stay, and the next lookup fetches again."""
    server = Server(POD)
    server.down = ServiceUnavailableError("down")
    mapper = RestMapper(server)
    results = await asyncio.gather(*(mapper.mapping_for(POD.gvk) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(r, ServiceUnavailableError) for r in results)
    assert server.fetches == 1
    server.down = None
    assert await mapper.mapping_for(POD.gvk) == POD
    server.down = ServiceUnavailableError("down")
    assert await mapper.mapping_for(POD.gvk) == POD


async def test_a_cancelled_fetch_is_repeated_for_the_others() -> None:
    """When the fetching task is cancelled, another waiter fetches, and no other task gets an error."""
    server = Server(POD, seconds=5)
    mapper = RestMapper(server)
    first = asyncio.create_task(mapper.mapping_for(POD.gvk))
    await asyncio.sleep(1)
    others = [asyncio.create_task(mapper.mapping_for(POD.gvk)) for _ in range(5)]
    await asyncio.sleep(1)
    first.cancel()
    assert await asyncio.gather(*others) == [POD] * 5
    assert server.fetches == 2


@pytest.mark.parametrize("seed", range(20))
async def test_random_cancellations_leave_one_fetch(seed: int) -> None:
    """After random cancellations the others get an answer, one fetch runs at a time, and no task is left."""
    rng = random.Random(seed)
    server = Server(POD, SITE, seconds=0.5)
    mapper = RestMapper(server)
    tasks = []
    for _ in range(20):
        tasks.append(asyncio.create_task(mapper.mapping_for(rng.choice([POD, SITE]).gvk)))
        await asyncio.sleep(rng.random() / 5)
        if rng.random() < 0.5:
            rng.choice(tasks).cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(r in (POD, SITE) for r in results if not isinstance(r, asyncio.CancelledError))


async def test_names_of_resources() -> None:
    """Plural, singular, short, with or without a group, in any case; what is served first wins."""
    mapper = StaticMapper([POD, SITE2, SITE, mapping("other.dev", "v1", "Pod")])
    for name in ("pods", "pod", "po", "Pods", GroupResource("", "pods")):
        assert await mapper.kind_for(name) == POD
    assert (await mapper.kind_for("pods.other.dev")).gvk.group == "other.dev"
    assert await mapper.kind_for("sites") == SITE2
    assert await mapper.kind_for(SITE.resource) == SITE
    with pytest.raises(NoMatchError, match="serves no resource"):
        await mapper.kind_for("nothings")


async def test_versions_of_a_kind() -> None:
    """The versions of a kind are in the server's order; a kind that is not served has none."""
    mapper = StaticMapper([SITE2, POD, SITE])
    assert await mapper.mappings_for(GroupKind("demo.opsdk.dev", "Site")) == [SITE2, SITE]
    assert await mapper.mappings_for(GroupKind("demo.opsdk.dev", "Nothing")) == []


async def test_an_ambiguous_name_is_the_preferred_match() -> None:
    """Several groups and versions may serve a name; a group, or its beginning, narrows it, and so does a version."""
    event, other = mapping("", "v1", "Event"), mapping("events.k8s.io", "v1", "Event")
    mapper = RestMapper(Server(event, other, SITE2, SITE))
    assert await mapper.kind_for("events") == await mapper.kind_for("event") == event
    assert await mapper.kind_for("events.events.k8s.io") == other
    assert await mapper.kind_for("events.events") == other
    assert await mapper.kind_for(GroupResource("", "events")) == event
    assert await mapper.kind_for("sites") == await mapper.kind_for("sites.demo") == SITE2
    assert await mapper.kind_for(SITE.resource) == SITE
    for name in ("events.k8s.io", GroupVersionResource("demo", "v1", "sites"), "nothings"):
        with pytest.raises(NoMatchError):
            await mapper.kind_for(name)
