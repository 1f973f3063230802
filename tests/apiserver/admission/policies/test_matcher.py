"""Match criteria of policies against a naive model."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.matching import RequestAttributes, RuleWithOperations, policy_exempt, selects_object
from opsdk.apiserver.admission.policies.matcher import matched
from opsdk.apiserver.admission.policies.policy_source import MatchCriteria
from opsdk.apiserver.admission.versioned_attributes import VersionedAttributesAccessor
from opsdk.apiserver.resources import InstalledResource, ResourceInfo
from opsdk.structured_merge.value import JsonObject

RULES = st.fixed_dictionaries(
    {
        "operations": st.lists(st.sampled_from(["CREATE", "UPDATE", "*"]), min_size=1, max_size=2),
        "apiGroups": st.sampled_from([["apps"], ["*"], ["batch"]]),
        "apiVersions": st.sampled_from([["v1"], ["v2"], ["*"]]),
        "resources": st.sampled_from([["things"], ["*"], ["things/status"], ["others"]]),
    },
    optional={
        "resourceNames": st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
        "scope": st.sampled_from(["*", "Cluster", "Namespaced"]),
    },
)
SELECTORS = st.sampled_from([{}, {"matchLabels": {"l": "x"}}, {"matchLabels": {"l": "y"}}])
CRITERIA = st.fixed_dictionaries(
    {},
    optional={
        "resourceRules": st.lists(RULES, max_size=2),
        "excludeResourceRules": st.lists(RULES, max_size=1),
        "objectSelector": SELECTORS,
        "namespaceSelector": SELECTORS,
        "matchPolicy": st.sampled_from(["Exact", "Equivalent"]),
    },
)


def served(version: str) -> InstalledResource:
    """Things in a version."""
    info = ResourceInfo(group="apps", version=version, resource="things", kind="Thing", namespaced=True)
    return InstalledResource(info, None, cast("Any", None))


VERSIONS = {version: served(version) for version in ("v1", "v2")}


class Both:
    """The same things in both versions."""

    def equivalents(self, one: InstalledResource) -> Sequence[InstalledResource]:
        return [other for other in VERSIONS.values() if other is not one]

    async def convert(self, obj: JsonObject, source: InstalledResource, target: InstalledResource) -> JsonObject:
        return obj


def namespace(name: str) -> JsonObject:
    """Its labels say what it is called."""
    return {"metadata": {"name": name, "labels": {"l": name}}}


REVIEWS = st.builds(
    lambda operation, version, space, name, label: Attributes(
        call=cast("Any", SimpleNamespace()),
        served=VERSIONS[version],
        operation=operation,
        namespace=space,
        name=name,
        obj={"metadata": {"name": name, "labels": {"l": label}}},
    ),
    st.sampled_from(["CREATE", "UPDATE"]),
    st.sampled_from(["v1", "v2"]),
    st.sampled_from(["", "x", "y"]),
    st.sampled_from(["a", "b", ""]),
    st.sampled_from(["x", "y"]),
)


def meant(rules: Sequence[JsonObject], review: Attributes, *, equivalent: bool) -> InstalledResource | None:
    """The first version, the request's own before others, that a rule means; one rule after another."""
    others = [one for one in VERSIONS.values() if one is not review.served] if equivalent else []
    for tier in ([review.served], others):
        for tree in rules:
            for one in tier:
                attributes = RequestAttributes.of(review).instead(
                    GroupVersionResource("apps", one.info.version, "things")
                )
                has_name = review.name in tree.get("resourceNames", [review.name])
                if RuleWithOperations.of(tree).matches(attributes) and has_name:
                    return one
    return None


@given(CRITERIA, REVIEWS)
def test_criteria_mean_what_their_parts_mean_together(tree: JsonObject, review: Attributes) -> None:
    """Without rules, all resources match; exclusions win; namespace selectors match cluster-scoped objects."""
    criteria, equivalent = MatchCriteria.of(tree), tree.get("matchPolicy") != "Exact"
    rules, excluded = tree.get("resourceRules") or [], tree.get("excludeResourceRules") or []
    expected = meant(rules, review, equivalent=equivalent) if rules else review.served
    labels = tree.get("namespaceSelector", {}).get("matchLabels", {})
    if (
        meant(excluded, review, equivalent=equivalent) is not None
        or not selects_object(criteria.objects, review)
        or (review.namespace and labels.get("l", review.namespace) != review.namespace)
    ):
        expected = None
    assert matched(VersionedAttributesAccessor(review, Both(), namespace), review, criteria) is expected


@pytest.mark.parametrize(
    ("group", "resource", "exempt"),
    [
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", True),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", True),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", False),
        ("authorization.k8s.io", "subjectaccessreviews", True),
        ("authentication.k8s.io", "tokenreviews", True),
        ("", "pods", False),
        ("example.com", "validatingadmissionpolicies", False),
    ],
)
def test_policies_and_reviews_are_exempt(group: str, resource: str, exempt: bool) -> None:
    """Admission policies never match policies, bindings and review requests."""
    assert policy_exempt(GroupVersionResource(group, "v1", resource)) is exempt
