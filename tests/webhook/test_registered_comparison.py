"""The pure comparison of registered objects with their declaration."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.errors import PatchError
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.configurations import (
    WebhookClientConfig,
    WebhookRegistration,
    WebhookRule,
    WebhookService,
    conversion_stanza,
    webhook_configurations,
)
from opsdk.webhook.registered.comparison import (
    RegisteredObject,
    RegisteredVersion,
    RegisteredWebhook,
    compare,
    registered_webhooks,
)
from opsdk.webhook.registered.definitions import registered_definitions
from tests.webhook.boxes import Box

OURS = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default"), ca_bundle=b"NEW")
OLD = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default"), ca_bundle=b"OLD")
OTHER = WebhookClientConfig(service=WebhookService(name="other", namespace="default"), ca_bundle=b"X")
DEFINITION = RegisteredObject(
    target=InjectionTarget(InjectionKind.CONVERSION, "sites.example.com"),
    converted=True,
    versions=(
        RegisteredVersion(name="v2", used=True, stored=True, subresources=("status", "scale")),
        RegisteredVersion(name="v1"),
    ),
)
CONFIGURATION = RegisteredObject(
    target=InjectionTarget(InjectionKind.VALIDATING, "site-validating"),
    webhooks=(RegisteredWebhook("a.example.com", "/a", {}), RegisteredWebhook("b.example.com", "/b", {})),
)


def definition(conversion: Any, *, without: str = "", **changes: Any) -> dict[str, Any]:
    """A definition with two versions; `changes` are those of v2."""
    v2 = {"name": "v2", "served": True, "storage": True, "subresources": {"status": {}, "scale": {}}, **changes}
    versions = [v2, {"name": "v1", "served": True, "storage": not v2["storage"]}]
    spec = {"versions": [version for version in versions if version["name"] != without], "conversion": conversion}
    return {"metadata": {"resourceVersion": "7"}, "spec": {k: v for k, v in spec.items() if v is not None}}


@pytest.mark.parametrize(
    ("conversion", "restores"),
    [
        ({"strategy": "None"}, "spec.conversion"),
        (None, "spec.conversion"),
        (conversion_stanza(OLD), "the caBundle"),
        (conversion_stanza(OURS), ""),
    ],
    ids=["none", "absent", "old caBundle", "as declared"],
)
def test_a_lost_conversion_is_restored(conversion: Any, restores: str) -> None:
    """A missing stanza and an old caBundle are restored, and the patch leads to an object without differences."""
    tree = definition(conversion)
    comparison = compare(DEFINITION, tree, OURS)
    assert (comparison.restores, comparison.faults) == (restores, ())
    patched = apply_json_patch(deepcopy(tree), comparison.patch)
    assert compare(DEFINITION, patched, OURS) == ([], "", ())
    assert patched["spec"]["conversion"] == conversion_stanza(OURS)


@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        (definition(conversion_stanza(OTHER)), ["! is converted by Service default/other, not by this operator"]),
        (definition(conversion_stanza(OURS), without="v2"), ["! does not serve v2"]),
        (definition({"strategy": "None"}, without="v1"), ["does not serve v1"]),
        (definition(conversion_stanza(OURS), storage=False), ["stores v1, not v2"]),
        (definition(conversion_stanza(OURS), subresources={"scale": {}}), ["! has no subresource status in v2"]),
    ],
)
def test_what_belongs_to_the_installation_is_reported(tree: dict[str, Any], texts: list[str]) -> None:
    """Versions, subresources and a conversion by another server are reported and stay as they are."""
    comparison = compare(DEFINITION, tree, OURS)
    assert [f"! {fault.text}" if fault.critical else fault.text for fault in comparison.faults] == texts
    assert comparison.patch == []


def test_a_version_of_a_controller_is_served_again() -> None:
    """`served` of a used version is restored; not in a definition with a version that the replica does not know."""
    tree = definition(conversion_stanza(OURS), served=False)
    comparison = compare(DEFINITION, tree, OURS)
    assert (comparison.restores, comparison.faults) == ("served of v2", ())
    patched = apply_json_patch(deepcopy(tree), comparison.patch)
    assert compare(DEFINITION, patched, OURS) == ([], "", ())
    assert compare(DEFINITION, tree, None).patch == []
    tree["spec"]["versions"].append({"name": "v3", "served": True, "storage": False})
    comparison = compare(DEFINITION, tree, OURS)
    assert comparison.patch == []
    assert [(fault.text, fault.critical) for fault in comparison.faults] == [("does not serve v2", True)]


def schema(**fields: Any) -> dict[str, Any]:
    """The schema of a version whose spec has some fields."""
    spec = {"type": "object", "properties": fields}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "metadata": {"type": "object"}}}}


TEXT = {"type": "string"}
LISTED = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}}


@pytest.mark.parametrize(
    ("ours", "theirs", "lost"),
    [
        (schema(size=TEXT), schema(size=TEXT, color=TEXT), ""),
        (schema(size=TEXT, color=TEXT), schema(size=TEXT), "spec.color"),
        (schema(list=LISTED), schema(list={"type": "array", "items": {"type": "object"}}), "spec.list.name"),
        (schema(size=TEXT), {"openAPIV3Schema": {"x-kubernetes-preserve-unknown-fields": True}}, ""),
        (schema(size=TEXT), {}, "spec"),
    ],
)
@pytest.mark.parametrize("converted", [True, False])
def test_a_storage_version_with_fewer_fields_is_critical(
    ours: dict[str, Any], theirs: dict[str, Any], lost: str, converted: bool
) -> None:
    """Unless a webhook converts: then nothing is lost."""
    tree = definition(conversion_stanza(OURS) if converted else {"strategy": "None"}, storage=False, schema=ours)
    tree["spec"]["versions"][1]["schema"] = theirs
    (fault,) = compare(replace(DEFINITION, converted=converted), tree, OURS).faults
    assert fault.critical is (bool(lost) and not converted)
    assert (f"which has no field {lost}: objects lose it" in fault.text) is fault.critical


def test_a_lost_conversion_and_a_version_are_restored_at_once() -> None:
    """A definition that was replaced by an older one needs one patch; the storage version stays a warning."""
    tree = definition({"strategy": "None"}, served=False, storage=False)
    comparison = compare(DEFINITION, tree, OURS)
    assert comparison.restores == "spec.conversion and served of v2"
    assert [(fault.text, fault.critical) for fault in comparison.faults] == [("stores v1, not v2", False)]
    patched = apply_json_patch(deepcopy(tree), comparison.patch)
    assert compare(DEFINITION, patched, OURS).patch == []


def test_without_an_address_nothing_is_restored() -> None:
    """Where other programs issue the certificates, a lost conversion is critical, and no patch is made."""
    comparison = compare(DEFINITION, definition({"strategy": "None"}), None)
    assert comparison.patch == []
    assert [fault.critical for fault in comparison.faults] == [True]


@pytest.mark.parametrize("was_seen", [True, False])
def test_an_absent_object_is_critical_once_it_was_there(was_seen: bool) -> None:
    """An installation may create the object after the operator; a deletion of it is a loss."""
    (fault,) = compare(CONFIGURATION, None, OURS, was_seen=was_seen).faults
    assert fault.critical is was_seen


def test_a_webhook_that_a_configuration_lacks_is_not_critical() -> None:
    """The next version may declare fewer webhooks, so a replica of this version does not add one."""
    webhooks = [{"name": "a.example.com", "clientConfig": OLD.tree("/a")}]
    comparison = compare(CONFIGURATION, {"webhooks": webhooks}, OURS)
    assert [(fault.text, fault.critical) for fault in comparison.faults] == [("lacks b.example.com", False)]
    assert comparison.restores == "the caBundle"


RULE = WebhookRule(
    object_selector=LabelSelector(match_labels={"team": "a"}), match_conditions={"named": "has(object.metadata.name)"}
)
REGISTRATION = WebhookRegistration(
    name="a.example.com",
    path="/a",
    mutating=True,
    group="demo.opsdk.dev",
    version="v1",
    resource="boxes",
    scope="Namespaced",
    operations=("CREATE", "UPDATE"),
    rule=RULE,
)
(DECLARED,) = webhook_configurations([REGISTRATION], OURS, name="site")
BOX_CONFIGURATION = RegisteredObject(
    target=InjectionTarget(InjectionKind.MUTATING, "site-mutating"), webhooks=registered_webhooks(DECLARED)
)
ADDRESS = {"name": "hooks", "namespace": "default", "path": "/a", "port": 443}


def stored(**changes: Any) -> dict[str, Any]:
    """The configuration as the server stores it, with other fields of its webhook."""
    webhook = {**deepcopy(DECLARED["webhooks"][0]), "namespaceSelector": {}, **changes}
    return {"webhooks": [{key: value for key, value in webhook.items() if value is not None}]}


def test_a_configuration_that_the_server_stored_is_as_declared() -> None:
    """Defaults of the server, and the order of lists, are no differences."""
    operations = [{**DECLARED["webhooks"][0]["rules"][0], "operations": ["UPDATE", "CREATE"]}]
    defaults = dict.fromkeys(("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy"))
    for tree in (stored(), stored(rules=operations), stored(**defaults)):
        assert compare(BOX_CONFIGURATION, tree, OURS) == ([], "", ())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rules": []}, "rules is empty, not ["),
        ({"failurePolicy": "Ignore"}, 'failurePolicy is "Ignore", not "Fail"'),
        ({"timeoutSeconds": 1}, "timeoutSeconds is 1, not 10"),
        ({"sideEffects": "Unknown"}, 'sideEffects is "Unknown", not "None"'),
        ({"matchPolicy": "Exact"}, 'matchPolicy is "Exact", not "Equivalent"'),
        ({"reinvocationPolicy": "IfNeeded"}, 'reinvocationPolicy is "IfNeeded", not "Never"'),
        ({"objectSelector": None}, 'objectSelector is empty, not {"matchLabels":{"team":"a"}}'),
        (
            {"namespaceSelector": {"matchLabels": {"x": "y"}}},
            'namespaceSelector is {"matchLabels":{"x":"y"}}, not empty',
        ),
        ({"matchConditions": []}, "matchConditions is empty, not ["),
        ({"admissionReviewVersions": ["v1beta1"]}, 'admissionReviewVersions is ["v1beta1"], not ["v1"]'),
        ({"clientConfig": {"service": {**ADDRESS, "name": "x"}}}, "clientConfig calls Service default/x, not this"),
        ({"clientConfig": {"service": {**ADDRESS, "path": "/b"}}}, "clientConfig calls the path /b, not /a"),
        ({"clientConfig": {"service": {**ADDRESS, "port": 8443}}}, "clientConfig calls the port 8443, not 443"),
    ],
)
def test_each_field_of_a_webhook_that_differs_is_reported(change: dict[str, Any], text: str) -> None:
    """The report names the webhook, the field and both values; the operator stays ready, and changes nothing."""
    comparison = compare(BOX_CONFIGURATION, stored(**change), OURS)
    (fault,) = comparison.faults
    assert fault.text.startswith(f"has another a.example.com: {text}")
    assert not fault.critical
    assert not [each for each in comparison.patch if not each["path"].startswith("/webhooks/0/clientConfig")]


(BOX,) = registered_definitions([Box])


def test_the_definition_of_the_class_is_as_declared() -> None:
    """What `crd_for` writes has no differences, with and without fields of a later version."""
    tree = crd_for(Box)
    assert compare(BOX, tree, None) == ([], "", ())
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["new"] = TEXT
    assert compare(BOX, tree, None) == ([], "", ())


@pytest.mark.parametrize(
    ("path", "lost"),
    [
        (("spec", "size"), "spec.size"),
        (("spec", "labels"), "spec.labels"),
        (("status", "opened"), "status.opened"),
        (("status",), "status"),
        (("spec",), "spec"),
    ],
)
def test_a_lost_field_is_reported_with_its_path(path: tuple[str, ...], lost: str) -> None:
    """The API server drops what the operator writes there."""
    tree = crd_for(Box)
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        schema = schema["properties"][name]
    del schema["properties"][path[-1]]
    (fault,) = compare(BOX, tree, None).faults
    assert fault.text == f"has no field {lost} in v1, so the API server drops what the operator writes there"
    assert not fault.critical


def test_another_scope_is_reported() -> None:
    """A definition that was created again may have another scope: then each request fails."""
    tree = crd_for(Box)
    tree["spec"]["scope"] = "Cluster"
    (fault,) = compare(BOX, tree, None).faults
    assert (fault.text, fault.critical) == ("has the scope Cluster, not Namespaced", True)


CONFIGS = st.sampled_from([OURS, OLD, OTHER])
CONVERSIONS = st.one_of(st.none(), st.just({"strategy": "None"}), CONFIGS.map(conversion_stanza))


@given(CONVERSIONS, st.booleans(), st.booleans(), st.sampled_from(["", "v1", "v2"]))
def test_a_patch_changes_the_conversion_only_and_once(
    conversion: Any, served: bool, storage: bool, without: str
) -> None:
    """A patch changes only the conversion and `served`, needs no second patch, and fails after a concurrent change."""
    tree = definition(conversion, without=without, served=served, storage=storage)
    comparison = compare(DEFINITION, tree, OURS)
    if not comparison.patch:
        return
    patched = apply_json_patch(deepcopy(tree), comparison.patch)
    assert compare(DEFINITION, patched, OURS).patch == []
    versions = [{**each, "served": True} for each in tree["spec"]["versions"]]
    assert {**patched["spec"], "conversion": None} == {**tree["spec"], "conversion": None, "versions": versions}
    if any("conversion" in operation["path"] for operation in comparison.patch):
        config = patched["spec"]["conversion"]["webhook"]["clientConfig"]
        assert base64.b64decode(config["caBundle"]) == b"NEW"
    concurrent = deepcopy(tree)
    concurrent["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}}}
    concurrent["metadata"]["resourceVersion"] = "8"
    for version in concurrent["spec"]["versions"]:
        version["served"] = True
    with pytest.raises(PatchError):
        apply_json_patch(concurrent, comparison.patch)
