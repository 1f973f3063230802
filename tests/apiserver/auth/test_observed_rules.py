"""Roles from observed requests allow exactly these requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.auth.authorization import AllowAuthenticated, AuthorizerAttributes, Decision
from opsdk.apiserver.auth.observed_rules import ObservedUse, ObservingAuthorizer, UserRules, minimal_rules
from opsdk.apiserver.auth.rbac import PolicyRule
from opsdk.apiserver.auth.user import User

USER = User(name="u")
resource_uses = st.builds(
    ObservedUse,
    user=st.just("u"),
    verb=st.sampled_from(["get", "list", "create"]),
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "pods/log", "deployments"]),
)
path_uses = st.builds(
    ObservedUse, user=st.just("u"), verb=st.sampled_from(["get", "post"]), path=st.sampled_from(["/x", "/y/z"])
)
uses = st.one_of(resource_uses, path_uses)


@given(st.frozensets(uses), uses)
def test_minimal_rules_allow_exactly_what_was_done(done: frozenset[ObservedUse], other: ObservedUse) -> None:
    """Minimal rules allow every observed use and no other."""
    rules = [r.wire() for r in minimal_rules(done)]
    assert UserRules(user="u", allowed=done).exceeds(rules) == []
    requested = UserRules(user="u", allowed=frozenset({other}))
    assert (requested.exceeds(rules) == []) == (other in done)


@given(st.frozensets(resource_uses, min_size=1), st.data())
def test_a_missing_verb_is_named(done: frozenset[ObservedUse], data: st.DataObject) -> None:
    """A use that the rules do not allow is reported, and no other."""
    lost = data.draw(st.sampled_from(sorted(done)))
    rules = [r.wire() for r in minimal_rules(done - {lost})]
    assert UserRules(user="u", allowed=done).exceeds(rules) == [lost]


def test_resources_with_the_same_verbs_stand_together() -> None:
    """Resources of one group with equal verbs share a rule; paths have separate rules."""
    done = [
        ObservedUse(user="u", verb=verb, resource=resource)
        for verb in ("list", "get")
        for resource in ("pods", "configmaps")
    ]
    result = minimal_rules([*done, ObservedUse(user="u", verb="get", path="/x")])
    assert set(result) == {
        PolicyRule(verbs=("get", "list"), groups=("",), resources=("configmaps", "pods")),
        PolicyRule(verbs=("get",), paths=("/x",)),
    }


async def test_questions_are_kept_once_each_with_their_answers() -> None:
    """Each use is recorded once; a use that was denied and later allowed counts as allowed."""

    class Strict:
        allowed = False

        async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
            return Decision(allowed=self.allowed)

    strict = Strict()
    observer = ObservingAuthorizer(strict)
    ask = AuthorizerAttributes(user=USER, verb="get", resource="pods", namespace="n")
    await observer.authorize(ask)
    assert observer.of("u").denied == {ObservedUse(user="u", verb="get", resource="pods", namespace="n")}
    strict.allowed = True
    for _ in range(3):
        await observer.authorize(ask)
    result = observer.of("u")
    assert (len(result.allowed), len(result.denied), observer.users()) == (1, 0, ["u"])
    strict.allowed = False
    await observer.authorize(ask)
    assert observer.of("u").allowed == result.allowed
    observer.clear()
    assert observer.users() == []


async def test_recorded_uses_are_bounded() -> None:
    """The number of recorded uses is bounded, however many different requests a client sends."""
    observer = ObservingAuthorizer(AllowAuthenticated())
    for number in range(10_050):
        await observer.authorize(AuthorizerAttributes(user=USER, verb="get", resource_request=False, path=f"/{number}"))
    assert len(observer.of("u").allowed) == 10_000


async def test_what_everybody_may_is_no_use() -> None:
    """Discovery and self-reviews are not recorded as uses."""
    observer = ObservingAuthorizer(AllowAuthenticated())
    await observer.authorize(AuthorizerAttributes(user=USER, verb="get", resource_request=False, path="/apis/apps/v1"))
    group, resource = "authorization.k8s.io", "selfsubjectaccessreviews"
    await observer.authorize(AuthorizerAttributes(user=USER, verb="create", group=group, resource=resource))
    assert observer.users() == []


def test_manifests_bind_service_accounts_and_users() -> None:
    """Manifests have a Role for each namespace, a ClusterRole for the rest, and bindings to the observed users."""
    name = "system:serviceaccount:ns:robot"
    done = frozenset(
        {
            ObservedUse(user=name, verb="get", resource="pods", namespace="a"),
            ObservedUse(user=name, verb="list", resource="nodes"),
        }
    )
    result = UserRules(user=name, allowed=done).manifests("robot")
    assert [(o["kind"], o["metadata"].get("namespace")) for o in result] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "a"),
        ("RoleBinding", "a"),
    ]
    assert result[1]["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}]


def test_a_use_prints_verb_resource_and_namespace() -> None:
    """A use prints its verb, its resource with group, and its namespace or path."""
    assert str(ObservedUse(user="u", verb="get", group="apps", resource="deployments/scale", namespace="n")) == (
        "get deployments/scale.apps in n"
    )
    assert str(ObservedUse(user="u", verb="get", path="/x")) == "get /x"
