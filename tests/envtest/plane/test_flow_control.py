"""Flow schemas: each request matches one, and responses name it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_caller import Answer, Caller

from envtest.data.flowcontrol import bootstrap_flows
from envtest.environment import Environment
from envtest.plane.flow_control import condition, flows_of, with_condition
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.apiserver.endpoints.request_info import parse_request
from opsdk.http.server.request import Query
from opsdk.structured_merge.value import JsonObject

BOOTSTRAP = [obj for resource, obj in bootstrap_flows() if resource == "flowschemas"]
GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
AUTHENTICATED = "system:authenticated"


def flow(name: str, groups: list[str], method: str, url: str) -> str:
    """The flow schema that takes a request on a fresh cluster."""
    path, _, query = url.partition("?")
    info = parse_request(method, path, Query(query))
    user = User(name=name, groups=tuple(groups))
    return next(f.name for f in flows_of(BOOTSTRAP) if f.matches(user, info))


@pytest.mark.parametrize(
    ("name", "groups", "method", "url", "wanted"),
    [
        ("admin", [MASTERS, AUTHENTICATED], "GET", "/api/v1/pods", "exempt"),
        ("alice", [AUTHENTICATED], "GET", "/healthz", "probes"),
        ("alice", [AUTHENTICATED], "POST", "/healthz", "global-default"),
        ("alice", [AUTHENTICATED], "GET", "/api/v1/namespaces/a/pods", "global-default"),
        ("system:anonymous", ["system:unauthenticated"], "GET", "/api", "global-default"),
        ("system:kube-scheduler", [AUTHENTICATED], "GET", "/api/v1/pods", "kube-scheduler"),
        (
            "system:kube-controller-manager", [AUTHENTICATED], "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", "system-leader-election",
        ),
        ("system:node:n", ["system:nodes", AUTHENTICATED], "PATCH", "/api/v1/nodes/n/status", "system-node-high"),
        ("system:node:n", ["system:nodes", AUTHENTICATED], "GET", "/api/v1/pods", "system-nodes"),
        (
            "system:serviceaccount:kube-system:dns", ["system:serviceaccounts", AUTHENTICATED], "GET", "/api/v1/pods",
            "kube-system-service-accounts",
        ),
        (
            "system:serviceaccount:a:bot", ["system:serviceaccounts", AUTHENTICATED], "GET", "/api/v1/pods",
            "service-accounts",
        ),
    ],
)  # fmt: skip
def test_default_flow_schemas_classify_requests(
    name: str, groups: list[str], method: str, url: str, wanted: str
) -> None:
    """The default flow schemas classify requests by user, verb, resource, scope and path."""
    assert flow(name, groups, method, url) == wanted


@given(
    st.sampled_from(["GET", "POST", "DELETE", "PATCH", "OPTIONS"]),
    st.from_regex(r"/[a-z0-9/*.]{0,40}", fullmatch=True),
    st.sampled_from([["system:unauthenticated"], [AUTHENTICATED], [AUTHENTICATED, MASTERS]]),
)
def test_nothing_is_without_a_flow(method: str, path: str, groups: list[str]) -> None:
    """The catch-all schemas match every request."""
    assert flow("x", groups, method, path)


def test_a_condition_is_written_once() -> None:
    """A condition keeps its time while its status is unchanged; other conditions stay."""
    other = {"type": "Other", "status": "True"}
    obj: JsonObject = {"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": [other]}}
    first = with_condition(obj, condition("l", "t1", exists=False))
    assert first is not None
    assert [c["type"] for c in first["status"]["conditions"]] == ["Other", "Dangling"]
    assert with_condition(first, condition("l", "t2", exists=False)) is None
    renamed = with_condition(first, condition("m", "t2", exists=False))
    assert renamed is not None
    assert renamed["status"]["conditions"][1]["lastTransitionTime"] == "t1"
    observed = with_condition(first, condition("l", "t3", exists=True))
    assert observed is not None
    assert (observed["status"]["conditions"][1]["status"], observed["status"]["conditions"][1]["reason"]) == (
        "False",
        "Found",
    )
    assert observed["status"]["conditions"][1]["lastTransitionTime"] == "t3"
    assert len(observed["metadata"]["managedFields"]) == 1


def flow_of(answer: Answer) -> tuple[str, str]:
    """The uids that an answer names."""
    headers = answer.headers
    return headers.get("x-kubernetes-pf-flowschema-uid", ""), headers.get("x-kubernetes-pf-prioritylevel-uid", "")


async def uids(call: Caller, resource: str) -> dict[str, str]:
    """By name."""
    response = await call("GET", f"{GROUP}/{resource}")
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in response.json["items"]}


@pytest.mark.realtime
async def test_answers_name_their_flow() -> None:
    """Every response names its flow, even rejections, but not a 401."""
    async with Environment(tokens={"t": User(name="alice")}) as env:
        call = Caller(env)
        schemas, levels = await uids(call, "flowschemas"), await uids(call, "prioritylevelconfigurations")
        assert flow_of(await call("GET", "/api/v1/pods")) == (schemas["exempt"], levels["exempt"])
        refused = await call("GET", "/api/v1/pods", authorization="Bearer t")
        assert refused.status == 403
        assert flow_of(refused) == (schemas["global-default"], levels["global-default"])
        assert flow_of(await call("GET", "/api/v1/pods", authorization="Bearer wrong")) == ("", "")


@pytest.mark.realtime
async def test_a_dangling_flow_schema_matches_no_requests() -> None:
    """A flow schema without its priority level is Dangling, and its requests go to other schemas."""
    async with Environment(tokens={"t": User(name="alice")}) as env:
        call = Caller(env)
        default = (await uids(call, "flowschemas"))["global-default"]
        rule = {
            "subjects": [{"kind": "User", "user": {"name": "alice"}}],
            "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "clusterScope": True}],
        }
        spec = {"matchingPrecedence": 5, "priorityLevelConfiguration": {"name": "mine"}, "rules": [rule]}
        response = await call("POST", f"{GROUP}/flowschemas", {"metadata": {"name": "mine"}, "spec": spec})
        assert response.status == 201

        async def said() -> str:
            conditions = (await call("GET", f"{GROUP}/flowschemas/mine")).json["status"].get("conditions")
            return str(conditions[0]["status"]) if conditions else ""

        async def flow(path: str) -> str:
            return flow_of(await call("GET", path, authorization="Bearer t"))[0]

        await env.eventually(said, is_("True"))
        assert await flow("/api/v1/pods") == default
        limited = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
        level = {"metadata": {"name": "mine"}, "spec": limited}
        assert (await call("POST", f"{GROUP}/prioritylevelconfigurations", level)).status == 201
        await env.eventually(said, is_("False"))
        assert await flow("/api/v1/pods") == response.json["metadata"]["uid"]
        assert await flow("/api/v1/nodes") == default


def is_(wanted: str) -> Callable[[str], None]:
    """A check for `eventually`."""

    def check(found: str) -> None:
        assert found == wanted

    return check
