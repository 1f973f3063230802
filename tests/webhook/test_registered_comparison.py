"""The pure comparison of registered objects with their declaration."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.errors import PatchError
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService, conversion_stanza
from opsdk.webhook.registered.comparison import RegisteredObject, RegisteredVersion, compare

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
    target=InjectionTarget(InjectionKind.VALIDATING, "site-validating"), webhooks=("a.example.com", "b.example.com")
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
