"""Laws of `envtest.controllers.cluster_role_aggregation`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.cluster_role_aggregation import aggregated_rules
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import Kubectl, settle

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def role(name: str, *rules: str, gathers: str = "", **labels: str) -> JsonObject:
    """Return a role whose rules differ in their verbs."""
    tree: JsonObject = {"metadata": {"name": name, "labels": labels}, "rules": [{"verbs": [r]} for r in rules]}
    if gathers:
        tree["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {gathers: "true"}}]}
    return tree


others = st.lists(
    st.builds(
        lambda name, rules, part: role(name, *rules, **({"part": "true"} if part else {})),
        st.sampled_from("abc"),
        st.lists(st.sampled_from("xyz"), max_size=3),
        st.booleans(),
    ),
    unique_by=lambda r: r["metadata"]["name"],
)


@given(others)
def test_every_rule_of_the_parts_once(parts: list[JsonObject]) -> None:
    """An aggregated role has each rule of its parts once; a second aggregation, in any order, changes nothing."""
    whole = role("whole", gathers="part")
    result = aggregated_rules(whole, parts)
    spec: list[Any] = [rule for p in parts if p["metadata"]["labels"] for rule in p["rules"]]
    assert all(rule in result for rule in spec)
    assert all(rule in spec for rule in result)
    assert all(result.count(rule) == 1 for rule in result)
    assert aggregated_rules({**whole, "rules": result}, [*reversed(parts), whole]) == result


class CountedRule(dict[str, Any]):
    """A rule that counts its comparisons."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedRule.comparisons += 1
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


def test_many_rules_are_not_compared_with_each_other() -> None:
    """The comparisons of rules grow with their number, and not with its square."""
    part = {"metadata": {"name": "a", "labels": {"part": "true"}}}
    part["rules"] = [CountedRule(verbs=[str(number)]) for number in range(300)]  # type: ignore[assignment]
    CountedRule.comparisons = 0
    assert len(aggregated_rules(role("whole", gathers="part"), [part])) == 300
    assert CountedRule.comparisons <= 300


async def test_admin_edit_and_view_are_filled() -> None:
    """The roles admin, edit and view aggregate their parts, also through each other; new parts are added."""
    async with Environment(controllers="clusterrole-aggregation") as env:
        api = Kubectl(env)
        await settle()
        rules = {name: (await api.get(f"{ROLES}/{name}"))["rules"] for name in ("view", "edit", "admin")}
        assert all(rule in rules["edit"] for rule in rules["view"])
        assert all(rule in rules["admin"] for rule in rules["edit"])
        extra = {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        await api.create(ROLES, {"metadata": {"name": "things", "labels": labels}, "rules": [extra]})
        await settle()
        assert extra in (await api.get(f"{ROLES}/admin"))["rules"]
        await api.delete(f"{ROLES}/things")
        await settle()
        assert extra not in (await api.get(f"{ROLES}/admin"))["rules"]


async def test_a_bare_server_gathers_nothing() -> None:
    """Without controllers the roles for people are empty, as on a fresh API server."""
    async with Environment() as env:
        assert (await Kubectl(env).get(f"{ROLES}/view"))["rules"] is None
