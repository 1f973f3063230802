"""APIServices: validation, automatic registration, and kubectl's columns."""

from __future__ import annotations

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.aggregated_server import APISERVICES, api_service, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
LOCAL = {"group": "a.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def definition(plural: str = "widgets", group: str = "demo.io", versions: tuple[str, ...] = ("v1",)) -> JsonObject:
    """A definition with these versions."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.title()},
            "versions": [{"name": v, "served": True, "storage": v == versions[0], "schema": schema} for v in versions],
        },
    }


async def names(call: Caller, managed: str) -> set[str]:
    """The entries with this mark."""
    response = await call("GET", f"{APISERVICES}?labelSelector={MANAGED}={managed}")
    return {item["metadata"]["name"] for item in response.json["items"]}


async def test_every_built_in_group_version_has_an_api_service() -> None:
    """Each built-in group version has an available APIService with kube-apiserver's priorities."""
    async with Environment() as env:
        call = Caller(env)
        groups = (await call("GET", "/apis")).json["groups"]
        served = {f"{v['version']}.{g['name']}" for g in groups for v in g["versions"]} | {"v1."}
        assert await names(call, "onstart") == served - {"v1.apiregistration.k8s.io"}
        apps = (await call("GET", f"{APISERVICES}/v1.apps")).json
        assert apps["spec"] == {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}
        [message] = apps["status"]["conditions"]
        assert (message["status"], message["reason"], message["message"]) == (
            "True", "Local", "Local APIServices are always available",
        )  # fmt: skip


async def test_discovery_keeps_its_order_when_another_server_joins() -> None:
    """The built-in groups have the priorities of their present order."""
    async with Environment() as env:
        call = Caller(env)
        before = [g["name"] for g in (await call("GET", "/apis")).json["groups"]]
        await call("POST", APISERVICES, api_service(groupPriorityMinimum=17550))
        after = [g["name"] for g in (await call("GET", "/apis")).json["groups"]]
        assert after.index("far.example.com") == after.index("autoscaling") - 1
        assert [name for name in after if name != "far.example.com"] == before


async def test_custom_group_versions_come_and_go_with_their_definitions() -> None:
    """An entry stays as long as any definition serves its group version."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition("widgets", versions=("v1", "v2")))
        await call("POST", CRDS, definition("gadgets"))
        assert await names(call, "true") == {"v1.demo.io", "v2.demo.io"}
        spec = (await call("GET", f"{APISERVICES}/v2.demo.io")).json["spec"]
        assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == (1000, 100)
        await call("DELETE", f"{CRDS}/widgets.demo.io")
        assert await names(call, "true") == {"v1.demo.io"}
        await call("DELETE", f"{CRDS}/gadgets.demo.io")
        assert await names(call, "true") == set()


async def test_the_api_service_of_a_definition_is_recreated() -> None:
    """A deleted APIService of a served definition is created again; a built-in one is not."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition())
        for name in ("v1.demo.io", "v1.apps"):
            assert (await call("DELETE", f"{APISERVICES}/{name}")).status == 200
        assert (await call("GET", f"{APISERVICES}/v1.demo.io")).status == 200
        assert (await call("GET", f"{APISERVICES}/v1.apps")).status == 404


async def test_api_services_follow_a_restored_snapshot() -> None:
    """After a restore, APIServices match the restored definitions."""
    async with Environment() as env:
        call = Caller(env)
        empty = env.snapshot()
        await call("POST", CRDS, definition())
        full = env.snapshot()
        env.restore(empty)
        assert await names(call, "true") == set()
        env.restore(full)
        assert await names(call, "true") == {"v1.demo.io"}
        await call("DELETE", f"{CRDS}/widgets.demo.io")
        assert await names(call, "true") == set()


async def test_a_definition_leaves_the_entry_of_another_server() -> None:
    """An APIService of another server stays when a definition of its group version comes or goes."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", APISERVICES, api_service(group="demo.io"))
        await call("POST", CRDS, definition())
        assert (await call("GET", f"{APISERVICES}/v1.demo.io")).json["spec"]["service"]["name"] == "server"
        await call("DELETE", f"{CRDS}/widgets.demo.io")
        assert (await call("GET", f"{APISERVICES}/v1.demo.io")).status == 200


@pytest.mark.parametrize(
    ("name", "spec", "wrong"),
    [
        ("v1.b.io", {}, {
            "metadata.name": 'Invalid value: "v1.b.io": must be `spec.version+"."+spec.group`: "v1.a.io"'}),
        ("v2.", {"group": "", "version": "v2"}, {
            "spec.group": "Required value: only v1 may have an empty group and it better be legacy kube"}),
        ("1.a.io", {"version": "1"}, {"spec.version": 'Invalid value: "1": a DNS-1035 label must consist of'}),
        ("v1.A_", {"group": "A_"}, {"spec.group": 'Invalid value: "A_": a lowercase RFC 1123 subdomain'}),
        ("v1.a.io", {"groupPriorityMinimum": 20001}, {
            "spec.groupPriorityMinimum": "Invalid value: 20001: must be positive and less than 20000"}),
        ("v1.a.io", {"versionPriority": -1}, {
            "spec.versionPriority": "Invalid value: -1: must be positive and less than 1000"}),
        ("v1.a.io", {"caBundle": "YWJj"}, {
            "spec.caBundle": 'Invalid value: "3 bytes": local APIServices may not have a caBundle'}),
        ("v1.a.io", {"insecureSkipTLSVerify": True}, {
            "spec.insecureSkipTLSVerify":
                "Invalid value: true: local APIServices may not have insecureSkipTLSVerify"}),
        ("v1.a.io", {"service": {}}, {
            "spec.service.namespace": "Required value", "spec.service.name": "Required value"}),
        ("v1.a.io", {"service": {"name": "a", "namespace": "b", "port": 70000}}, {
            "spec.service.port":
                "Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"}),
        ("v1.a.io", {"service": {"name": "a", "namespace": "b"}, "insecureSkipTLSVerify": True, "caBundle": "YWJj"}, {
            "spec.insecureSkipTLSVerify": "Invalid value: true: may not be true if caBundle is present"}),
    ],
)  # fmt: skip
async def test_what_may_not_be_said(name: str, spec: JsonObject, wrong: dict[str, str]) -> None:
    """Each invalid APIService has the error of its field."""
    async with Environment() as env:
        answer = await Caller(env)("POST", APISERVICES, {"metadata": {"name": name}, "spec": {**LOCAL, **spec}})
        assert answer.status == 422, answer.raw
        causes = {cause["field"]: cause["message"] for cause in answer.json["details"]["causes"]}
        assert causes.keys() == wrong.keys()
        assert all(causes[field].startswith(text) for field, text in wrong.items()), causes


async def test_a_status_is_written_by_its_own_resource_only() -> None:
    """The main resource keeps the status; the status resource keeps everything else, including labels."""
    async with Environment() as env:
        call = Caller(env)
        url = f"{APISERVICES}/v1.apps"
        await call("PATCH", url, {"metadata": {"labels": {"a": "b"}}, "status": {"conditions": []}}, content_type=MERGE)
        change = {"metadata": {"labels": {"c": "d"}}, "status": {"conditions": [{"type": "X", "status": "True"}]}}
        stored = (await call("PATCH", f"{url}/status", change, content_type=MERGE)).json
        assert stored["metadata"]["labels"] == {MANAGED: "onstart", "a": "b"}
        assert [c["type"] for c in stored["status"]["conditions"]] == ["X"]
        bad = {"status": {"conditions": [{"type": "X", "status": "Maybe"}]}}
        answer = await call("PATCH", f"{url}/status", bad, content_type=MERGE)
        assert answer.status == 422
        assert 'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"' in answer.json["message"]


async def test_tables_show_service_and_availability() -> None:
    """A table of APIServices shows name, service, availability with its reason, and age."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", APISERVICES, api_service())
        await until(env, call, "ServiceNotFound")
        table = (await call("GET", APISERVICES, accept=TABLE)).json
        assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Service", "Available", "Age"]
        rows = {row["cells"][0]: row["cells"][1:3] for row in table["rows"]}
        assert rows["v1.apps"] == ["Local", "True"]
        assert rows["v1.far.example.com"] == ["far/server", "False (ServiceNotFound)"]
