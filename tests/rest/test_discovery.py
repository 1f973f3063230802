"""Laws of `opsdk.rest.discovery`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from opsdk.errors import ConnectError, DecodeError, ForbiddenError, ServiceUnavailableError
from opsdk.rest.discovery import DiscoveredGroups, Discovery
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse
from opsdk.structured_merge.value import JsonObject


class _Server:
    """Answers from a table; anything else is 404."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {path.replace("__", "/"): value for path, value in answers.items()}
        self.asked: list[str] = []
        self.now = self.most = 0

    async def send(self, request: RestRequest, *, timeout: float | None = None) -> RestResponse:
        self.asked.append(request.path)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        value = self.answers.get(request.path)
        if isinstance(value, Exception):
            raise value
        if isinstance(value, RestResponse):
            return value
        return RestResponse(404) if value is None else RestResponse(200, {}, json.dumps(value).encode())


def _agg(*items: Any) -> JsonObject:
    return {"kind": "APIGroupDiscoveryList", "items": list(items)}


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


DEPLOYMENTS = {
    "resource": "deployments",
    "responseKind": _gvk("", "", "Deployment"),
    "scope": "Namespaced",
    "singularResource": "deployment",
    "verbs": ["get", "list"],
    "shortNames": ["deploy"],
    "categories": ["all"],
    "subresources": [
        {"subresource": "scale", "responseKind": _gvk("autoscaling", "v1", "Scale"), "verbs": ["get"]},
        {"subresource": "status", "responseKind": _gvk("", "", "Deployment"), "verbs": ["get", "patch"]},
    ],
}
AGGREGATED = {
    "/api": _agg({"metadata": {"name": ""}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
        {"resource": "nodes", "responseKind": _gvk("", "v1", "Node"), "scope": "Cluster", "verbs": None},
    ]}]}),
    "/apis": _agg({"metadata": {"name": "apps"}, "versions": [
        {"version": "v1", "resources": [DEPLOYMENTS]}, {"version": "v1beta1", "resources": None},
    ]}),
}  # fmt: skip
LEGACY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "versions": [
                    {"groupVersion": "apps/v1beta1", "version": "v1beta1"},
                    {"groupVersion": "apps/v1", "version": "v1"},
                ],
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
            }
        ],
    },
    "/api/v1": {"kind": "APIResourceList", "resources": [{"name": "nodes", "kind": "Node", "verbs": None}]},
    "/apis/apps/v1beta1": {"kind": "APIResourceList", "resources": None},
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "resources": [
            {
                "name": "deployments",
                "singularName": "deployment",
                "namespaced": True,
                "kind": "Deployment",
                "verbs": ["get", "list"],
                "shortNames": ["deploy"],
                "categories": ["all"],
            },
            {"name": "deployments/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get"]},
            {"name": "deployments/status", "kind": "Deployment", "verbs": ["get", "patch"]},
        ],
    },
}


async def _fetch(answers: JsonObject) -> tuple[DiscoveredGroups, _Server]:
    server = _Server(**answers)
    return await Discovery(server).fetch(), server


async def test_aggregated_discovery_takes_two_requests() -> None:
    """Aggregated discovery takes two concurrent requests."""
    groups, server = await _fetch(AGGREGATED)
    assert sorted(server.asked) == ["/api", "/apis"]
    assert server.most == 2
    assert [(g.name, g.preferred, tuple(g.versions)) for g in groups.groups] == [
        ("", "v1", ("v1",)),
        ("apps", "v1", ("v1", "v1beta1")),
    ]
    assert [r.plural for r in groups.resources] == ["nodes", "deployments"]


async def test_aggregated_and_legacy_discovery_agree() -> None:
    """Legacy discovery gives the very resources that aggregated discovery gives, the preferred version first."""
    new, old = (await _fetch(AGGREGATED))[0], (await _fetch(LEGACY))[0]
    assert (old.resources, old.groups, dict(old.failures)) == (new.resources, new.groups, {})
    nodes, deployments = new.resources
    assert (nodes.namespaced, nodes.kind, nodes.verbs) == (False, "Node", ())
    assert (deployments.group, deployments.version, deployments.kind) == ("apps", "v1", "Deployment")
    assert (deployments.namespaced, deployments.short_names, deployments.categories) == (True, ("deploy",), ("all",))
    scale, status = deployments.subresources["scale"], deployments.subresources["status"]
    assert (scale.group, scale.version, scale.kind) == ("autoscaling", "v1", "Scale")
    assert (status.group, status.version, status.verbs) == ("apps", "v1", ("get", "patch"))


@pytest.mark.parametrize("old", ["/api", "/apis"])
async def test_each_root_may_have_its_own_format(old: str) -> None:
    """A server (or a proxy in front) may aggregate one root only."""
    groups, _ = await _fetch({**LEGACY, **AGGREGATED, old: LEGACY[old]})
    assert [r.plural for r in groups.resources] == ["nodes", "deployments"]


@pytest.mark.parametrize(
    "failure",
    [
        RestResponse(503),
        RestResponse(200, {}, b"<html>"),
        ConnectError("down"),
        RestResponse(200, {}, b'{"resources": 3}'),
    ],
)
async def test_a_failing_group_does_not_hide_others(failure: Any) -> None:
    """An extension server that is down is recorded by name, and everything else is found."""
    groups, _ = await _fetch({**LEGACY, "/apis/apps/v1beta1": failure})
    assert list(groups.failures) == ["apps/v1beta1"]
    assert [r.plural for r in groups.resources] == ["nodes", "deployments"]
    assert len(groups.groups) == 2


async def test_a_stale_group_is_a_failure() -> None:
    """A version whose server did not answer lately is recorded, and hides no other."""
    stale = {"version": "v1beta1", "freshness": "Stale", "resources": [DEPLOYMENTS]}
    item = {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [DEPLOYMENTS]}, stale]}
    groups, _ = await _fetch({**AGGREGATED, "/apis": _agg(item)})
    assert isinstance(groups.failures["apps/v1beta1"], ServiceUnavailableError)
    assert [(r.version, r.plural) for r in groups.resources] == [("v1", "nodes"), ("v1", "deployments")]


async def test_a_version_deleted_meanwhile_is_left_out() -> None:
    """A CRD deleted between two requests is not a failure."""
    groups, _ = await _fetch({**LEGACY, "/apis/apps/v1beta1": None})
    assert not groups.failures


async def test_an_absent_root_serves_nothing() -> None:
    """A server may have only one of the two roots, or announce nothing at all."""
    groups, _ = await _fetch({"/apis": _agg({"metadata": {"name": "empty"}, "versions": []})})
    assert (groups.groups, groups.resources) == ((), ())
    assert (await _fetch({"/api": {"versions": None}, "/apis": {"groups": None}}))[0].groups == ()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ConnectError("down"), ConnectError),
        (RestResponse(403), ForbiddenError),
        (RestResponse(200, {}, b"<"), DecodeError),
    ],
)
async def test_a_failing_root_is_raised(answer: Any, kind: type[Exception]) -> None:
    """An error of a discovery root is raised unchanged."""
    with pytest.raises(kind):
        await _fetch({**AGGREGATED, "/apis": answer})


async def test_legacy_requests_are_concurrent_and_bounded() -> None:
    """A hundred groups are read with at most sixteen concurrent requests."""
    groups = [{"name": f"g{n}", "versions": [{"version": "v1"}]} for n in range(100)]
    result, server = await _fetch({"/api": {"versions": []}, "/apis": {"groups": groups}})
    assert (len(result.groups), server.most) == (100, 16)
    assert asyncio.get_running_loop().time() == pytest.approx(8)
