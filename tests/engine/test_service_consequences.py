"""Services that no longer answer, and what sends requests to them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from slow_cases import mostly_slow

from opsdk import Client
from opsdk.engine.plan import ConsequenceKind, Plan, Severity
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.structured_merge.value import JsonObject
from tests.engine.upgrades import App, Version, plan_for, service, state_of, without_kinds, workload
from tests.engine.versions import plan_against

LOST = {ConsequenceKind.SERVICE_DELETED, ConsequenceKind.SERVICE_WITHOUT_PODS, ConsequenceKind.BACKEND_LOST}
PORT = {"number": 80}
ROUTES = "gateway.networking.k8s.io"


def version(*services: JsonObject, replicas: int = 2, **changes: Any) -> Version:
    """A version whose App has a Deployment and some Services."""
    return Version(children=lambda name: [workload("Deployment", name, replicas=replicas, **changes), *services])


def ingress(name: str) -> JsonObject:
    """An Ingress with a path to a Service."""
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": name, "port": PORT}}}
    return _named("networking.k8s.io/v1", "Ingress", spec={"rules": [{"http": {"paths": [path]}}]})


def default_ingress(name: str) -> JsonObject:
    """An Ingress that sends all requests to a Service."""
    spec = {"defaultBackend": {"service": {"name": name, "port": PORT}}}
    return _named("networking.k8s.io/v1", "Ingress", spec=spec)


def webhook(name: str) -> JsonObject:
    """A webhook configuration of a Service."""
    hook = {
        "name": "check.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}],
    }
    tree = _named("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[hook])
    del tree["metadata"]["namespace"]
    return tree


def _named(api_version: str, kind: str, **more: object) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "site", "namespace": "default"}, **more}


def route(name: str) -> list[JsonObject]:
    """A route of the Gateway API to a Service, and its definition."""
    names = {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute", "listKind": "HTTPRouteList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    annotations = {"api-approved.kubernetes.io": "https://example.com"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"httproutes.{ROUTES}", "annotations": annotations},
        "spec": {"group": ROUTES, "names": names, "scope": "Namespaced", "versions": versions},
    }
    rules = [{"backendRefs": [{"name": name, "port": 80}]}]
    return [definition, _named(f"{ROUTES}/v1", "HTTPRoute", spec={"rules": rules})]


def conversion(name: str) -> list[JsonObject]:
    """A definition whose conversion webhook is a Service."""
    [definition, _] = route(name)
    service_reference = {"namespace": "default", "name": name, "path": "/convert"}
    webhook = {"clientConfig": {"service": service_reference}, "conversionReviewVersions": ["v1"]}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return [definition]


CALLERS = {
    "Ingress": lambda name: [ingress(name)],
    "default backend": lambda name: [default_ingress(name)],
    "webhook": lambda name: [webhook(name)],
    "HTTPRoute": route,
    "conversion": conversion,
}


@cache
def state(caller: str = "") -> ClusterSnapshot:
    """The cluster with a Service that has two endpoints, and something that sends requests to it."""
    return state_of(version(service("app-0")), more=CALLERS[caller]("app-0") if caller else ())


def losses(plan: Plan) -> list[tuple[str, str]]:
    """What the plan says of Services and of what sends requests to them."""
    dangers = [each for each in plan.consequences if each.kind in LOST and each.severity is Severity.DANGER]
    return [(each.subject, each.message) for each in dangers]


DELETED = version()
RENAMED = version(service("web", selector={"app": "app-0"}))
UNSELECTED = version(service("app-0", selector={"app": "x"}))
EMPTY = version(service("app-0"), replicas=0)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (DELETED, "it is deleted, with 2 ready endpoints"),
        (RENAMED, "it is deleted, with 2 ready endpoints: Service default/web has them at the end"),
        (UNSELECTED, "it has no endpoint at the end; before it had 2"),
        (EMPTY, "it has no endpoint at the end; before it had 2"),
    ],
)
def test_a_service_that_no_longer_answers_is_dangerous(new: Version, message: str) -> None:
    """Whatever the reason."""
    assert losses(plan_for(new, state())) == [("Service default/app-0", message)]


@pytest.mark.parametrize("caller", mostly_slow(CALLERS, every=3))
@pytest.mark.parametrize(
    ("new", "why"), [(RENAMED, "does not exist"), (EMPTY, "has no endpoint")], ids=["renamed", "empty"]
)
def test_what_sends_requests_to_it_is_named(caller: str, new: Version, why: str) -> None:
    """The object itself does not change."""
    plan = plan_for(new, state(caller))
    kind = CALLERS[caller]("app-0")[-1]["kind"]
    subject = f"{kind} site" if caller == "webhook" else f"{kind} default/site"
    if caller == "conversion":
        subject = f"{kind} httproutes.{ROUTES}"
    message = f"it sends requests to Service default/app-0, which {why} at the end"
    assert (subject, message) in losses(plan)
    # What is dangerous between two versions too: the state between them has the webhook as well.
    old = version(service("app-0"))
    between = plan_against(lambda _: old.operator(), lambda _: new.operator(), state(caller))
    assert (subject, message) in losses(between)


@pytest.mark.slow
def test_an_ingress_of_the_operator_that_names_another_service() -> None:
    """The new version names a Service that nothing creates."""
    old = version(service("app-0"), ingress("app-0"))
    plan = plan_for(version(service("app-0"), ingress("wep")), state_of(old))
    message = "it sends requests to Service default/wep, which does not exist at the end"
    assert losses(plan) == [("Ingress default/site", message)]


def test_the_addresses_of_many_services_are_no_loop() -> None:
    """The server makes an IPAddress for each, whose names differ in their digits."""
    names = [f"service-{number}" for number in range(25)]
    plan = plan_for(version(*map(service, names)), state())
    assert not [each for each in plan.consequences if each.kind is ConsequenceKind.LOOP]


def test_an_ingress_that_follows_the_new_name() -> None:
    """The Service is deleted, and nothing else is lost."""
    old = version(service("app-0"), ingress("app-0"))
    new = version(service("web", selector={"app": "app-0"}), ingress("web"))
    assert [subject for subject, _ in losses(plan_for(new, state_of(old)))] == ["Service default/app-0"]


def test_a_service_without_endpoints_is_not_missed() -> None:
    """Nothing answered before."""
    idle = version(service("idle", selector={"app": "x"}), service("app-0"))
    assert losses(plan_for(version(service("app-0")), state_of(idle, more=[ingress("idle")]))) == []


def test_the_owner_goes_with_its_service() -> None:
    """A user deletes the App: that is one consequence, and the Ingress of another owner is a second one."""

    async def delete(client: Client) -> None:
        await client.delete(App, "app-0", namespace="default")

    plan = plan_for(version(service("app-0")), state("Ingress"), changes=[delete])
    message = "it sends requests to Service default/app-0, which does not exist at the end"
    assert losses(plan) == [("Ingress default/site", message)]


@pytest.mark.parametrize("resource", ["services", "endpointslices.discovery.k8s.io"])
def test_services_that_were_not_read_are_not_missed(resource: str) -> None:
    """They may exist."""
    assert losses(plan_for(RENAMED, without_kinds(state("Ingress"), [resource]))) == []
