"""APIServices: conditions, priorities and availability checks, the pure parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.aggregator.api_services import (
    LOCAL,
    PASSED,
    Availability,
    RemoteService,
    available,
    judged,
    remote_of,
)
from opsdk.apiserver.aggregator.availability import Network, unavailable_reason
from opsdk.apiserver.aggregator.group_priorities import GroupPriorities
from opsdk.apiserver.endpoints.discovery import ServedVersion
from opsdk.structured_merge.value import JsonObject

VERDICTS = [
    LOCAL,
    PASSED,
    Availability("False", "A", "a"),
    Availability("False", "B", "b"),
    Availability("Unknown", "C", "c"),
]


@given(st.lists(st.sampled_from(VERDICTS), min_size=1))
def test_the_available_condition_follows_the_last_verdict(verdicts: list[Availability]) -> None:
    """Available has the last result, its time changes only with its status, and other conditions stay."""
    other = {"type": "Other", "status": "True"}
    status: JsonObject = {"conditions": [other]}
    turned, before = 0, ""
    for now, verdict in enumerate(verdicts):
        status = judged(status, verdict, str(now))
        turned, before = (turned, before) if verdict.status == before else (now, verdict.status)
        result = available({"status": status})
        assert result is not None
        assert (result["status"], result["reason"], result["message"]) == (
            verdict.status,
            verdict.reason,
            verdict.message,
        )
        assert result["lastTransitionTime"] == str(turned)
        assert [c["type"] for c in status["conditions"]] == ["Other", "Available"]


@pytest.mark.parametrize("bundle", ["", "QQ==", "no base64!"])
def test_any_stored_object_can_be_read(bundle: str) -> None:
    """An APIService with an invalid caBundle can be read; the bundle is parsed when it is used."""
    spec = {"service": {"name": "s", "namespace": "n"}, "version": "v1", "group": "g", "caBundle": bundle}
    result = remote_of({"metadata": {"name": "v1.g"}, "spec": spec})
    assert result is not None
    assert (result.host, result.port, result.root, result.available) == ("s.n.svc", 443, "/apis/g/v1", False)
    assert remote_of({"metadata": {"name": "v1.g"}, "spec": {}}) is None


REMOTE = RemoteService(name="v1.g", group="g", version="v1", namespace="n", service="s", port=443)


def network(
    ready: bool | None = True, port: str = "", kind: str = "ClusterIP", endpoints: JsonObject | None = None
) -> Network:
    """A Service with a slice."""
    spec = {"type": "ClusterIP", "ports": [{"port": 443}]}
    part = {"endpoints": [{"addresses": ["1.2.3.4"], "conditions": {"ready": ready}}], "ports": [{"name": port}]}
    return Network(service={"spec": spec}, slices=[part], endpoints=endpoints)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Network(service=None), "ServiceNotFound"),
        (Network(service={"spec": {"ports": [{"port": 80}]}}), "ServicePortError"),
        (Network(service={"spec": {"ports": [{"port": 443}]}}), "EndpointsNotFound"),
        (network(ready=False), "MissingEndpoints"),
        (network(port="https"), "MissingEndpoints"),
        (network(ready=None), ""),
        (network(), ""),
        (network(ready=False, endpoints={"subsets": [{"addresses": [{"ip": "1.1.1.1"}], "ports": [{}]}]}), ""),
        (Network(service={"spec": {"type": "ExternalName"}}), ""),
    ],
)
def test_the_first_failing_check_is_the_reason(found: Network, reason: str) -> None:
    """Service, ports and addresses are checked in order before any request; external names skip the addresses."""
    verdict = unavailable_reason(REMOTE, found)
    assert (verdict.reason if verdict else "") == reason


NAMES = st.sampled_from(["v1.a", "v2.a", "v1.b", "v1.c"])


@given(st.lists(st.tuples(NAMES, st.one_of(st.none(), st.tuples(st.integers(1, 9), st.integers(1, 9))))))
def test_ranks_follow_every_write(writes: list[tuple[str, tuple[int, int] | None]]) -> None:
    """After any writes, groups are ordered by their highest priority, then by name."""
    ranks, there = GroupPriorities(), dict[str, tuple[int, int]]()
    for name, numbers in writes:
        version, _, group = name.partition(".")
        if numbers is None:
            there.pop(name, None)
            ranks.put(name, None)
            continue
        there[name] = numbers
        keys = ("group", "version", "groupPriorityMinimum", "versionPriority")
        ranks.put(name, {"spec": dict(zip(keys, (group, version, *numbers), strict=True))})
    groups = {name.partition(".")[2] for name in there}
    best = {g: max(n for name, (n, _) in there.items() if name.endswith(f".{g}")) for g in groups}
    assert sorted(groups, key=ranks.sort_key) == sorted(groups, key=lambda g: (-best[g], g))
    both = [v for v in ("v1", "v2") if f"{v}.a" in there]
    expected = sorted(both, key=lambda v: -there[f"{v}.a"][1])
    assert [served.version for served in ranks.sorted("a", [ServedVersion(v, ()) for v in both])] == expected
