"""Rules against a naive model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apiserver.admission.matching import RequestAttributes, RuleWithOperations, exempt, selector_of
from opsdk.structured_merge.value import JsonObject

GROUPS, VERSIONS = ["", "apps", "batch"], ["v1", "v2"]
RESOURCES, SUBS = ["pods", "namespaces", "nodes"], ["", "status", "scale"]
OPERATIONS = ["CREATE", "UPDATE", "DELETE", "CONNECT"]


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    """A few of them, or the wildcard."""
    return st.lists(st.sampled_from([*values, "*"]), min_size=1, max_size=3)


PATTERNS = [f"{r}/{s}" if s else r for r in [*RESOURCES, "*"] for s in [*SUBS, "*"]]
RULES = st.fixed_dictionaries(
    {
        "operations": some(OPERATIONS),
        "apiGroups": some(GROUPS),
        "apiVersions": some(VERSIONS),
        "resources": st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    },
    optional={"scope": st.sampled_from(["*", "Cluster", "Namespaced"])},
)
ASKED = st.builds(
    lambda operation, group, version, resource, sub, namespace: RequestAttributes(
        operation=operation,
        resource=GroupVersionResource(group, version, resource),
        subresource=sub,
        namespace=namespace,
    ),
    st.sampled_from(OPERATIONS),
    st.sampled_from(GROUPS),
    st.sampled_from(VERSIONS),
    st.sampled_from(RESOURCES),
    st.sampled_from(SUBS),
    st.sampled_from(["", "default"]),
)


def expected(rule: JsonObject, asked: RequestAttributes) -> bool:
    """One question after another, as the documentation puts them."""
    if not {"*", asked.operation} & set(rule["operations"]):
        return False
    if not {"*", asked.resource.group} & set(rule["apiGroups"]):
        return False
    if not {"*", asked.resource.version} & set(rule["apiVersions"]):
        return False
    path = f"{asked.resource.resource}/{asked.subresource}" if asked.subresource else asked.resource.resource
    meant = {path, f"*/{asked.subresource}" if asked.subresource else "*", f"{asked.resource.resource}/*", "*/*"}
    if not meant & set(rule["resources"]):
        return False
    is_namespace = asked.resource == ("", asked.resource.version, "namespaces")
    match rule.get("scope", "*"):
        case "Cluster":
            return is_namespace or not asked.namespace
        case "Namespaced":
            return not is_namespace and bool(asked.namespace)
        case _:
            return True


@given(RULES, ASKED)
def test_a_rule_matches_what_it_names_and_nothing_else(rule: JsonObject, asked: RequestAttributes) -> None:
    """Operations, groups, versions, resources, subresources and scope of a rule must all match."""
    assert RuleWithOperations.of(rule).matches(asked) == expected(rule, asked)


def test_only_configurations_of_admission_are_exempt() -> None:
    """Only resources of admissionregistration.k8s.io are exempt, in any version."""
    group = "admissionregistration.k8s.io"
    assert exempt(GroupVersionResource(group, "v1", "validatingwebhookconfigurations"))
    assert exempt(GroupVersionResource(group, "v9", "mutatingadmissionpolicybindings"))
    assert not exempt(GroupVersionResource("apps", "v1", "validatingwebhookconfigurations"))
    assert not exempt(GroupVersionResource(group, "v1", "others"))


def test_a_selector_that_says_nothing_selects_everything() -> None:
    """A selector that is absent, empty or has null parts selects everything."""
    for tree in (None, {}, {"matchLabels": None, "matchExpressions": None}):
        assert selector_of(tree).matches({})
    assert not selector_of({"matchLabels": {"a": "b"}}).matches({})
