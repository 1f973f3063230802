"""Authentication and authorization, as clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from server_caller import APPLY, MERGE, Answer, Caller

from envtest.environment import Environment
from opsdk.apiserver.auth.authorization import AllowAuthenticated
from opsdk.apiserver.auth.user import User
from opsdk.structured_merge.value import JsonObject

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CM = "/api/v1/namespaces/default/configmaps"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ROBOT = "/api/v1/namespaces/default/serviceaccounts/robot"
ALICE = User(name="alice", uid="alice-uid", groups=("devs",))
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"]}


def server() -> Environment:
    """A server with RBAC that knows alice."""
    return Environment(tokens={"alice": ALICE})


class World:
    """An admin and alice, and what the admin does for her."""

    def __init__(self, env: Environment) -> None:
        self.admin = Caller(env)
        self.alice = Caller(env, "alice")

    async def grant(self, name: str, *rules: Mapping[str, Any], subject: Mapping[str, str] | None = None) -> None:
        """Return a role in the namespace default, and its binding to alice or to another user."""
        created = await self.admin(
            "POST", f"{RBAC}/namespaces/default/roles", {"metadata": {"name": name}, "rules": rules}
        )
        assert created.status == 201, created.json
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        who = subject or {"kind": "User", "name": "alice"}
        binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [who]}
        assert (await self.admin("POST", f"{RBAC}/namespaces/default/rolebindings", binding)).status == 201

    async def grant_everywhere(self, name: str, *rules: Mapping[str, Any], user: str = "alice") -> None:
        """A cluster role, bound for all namespaces."""
        await self.admin("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [{"kind": "User", "name": user}]}
        assert (await self.admin("POST", f"{RBAC}/clusterrolebindings", binding)).status == 201


def rule(*verbs: str, names: tuple[str, ...] = (), **more: Any) -> JsonObject:
    """A rule for config maps, unless `more` says otherwise."""
    result = {**CONFIG_MAPS, "verbs": list(verbs), **more}
    return {**result, "resourceNames": list(names)} if names else result


# ------------------------------------------------------------------ who gets in
async def test_without_credentials_one_sees_health_and_version_only() -> None:
    """Anonymous users can GET only what bootstrap roles allow; other requests are a 403."""
    async with server() as env:
        nobody = Caller(env, "")
        assert [(await nobody("GET", p)).status for p in ("/healthz", "/livez", "/readyz", "/version")] == [200] * 4
        refused = await nobody("GET", "/api")
        assert (refused.status, refused.headers["x-content-type-options"]) == (403, "nosniff")
        assert refused.json["message"] == 'forbidden: User "system:anonymous" cannot get path "/api"'
        assert (await nobody("DELETE", "/healthz")).status == 403


async def test_wrong_credentials_are_refused_everywhere() -> None:
    """An unknown token is a 401 even on public paths; other schemes count as anonymous."""
    async with server() as env:
        assert (await Caller(env, "wrong")("GET", "/healthz")).status == 401
        nobody = Caller(env, "")
        assert (await nobody("GET", "/healthz", authorization="Basic YTpi")).status == 200
        assert (await nobody("GET", "/healthz", authorization="Bearer ")).status == 200
        assert (await nobody("GET", "/healthz", authorization="bearer wrong")).status == 401


async def test_anonymous_requests_can_be_switched_off() -> None:
    """With anonymous requests disabled, a request without credentials is a 401."""
    async with Environment(anonymous=False) as env:
        assert (await Caller(env, "")("GET", "/healthz")).status == 401
        assert (await Caller(env)("GET", "/healthz")).status == 200


async def test_everybody_may_be_let_in() -> None:
    """With `AllowAuthenticated`, credentials are enough."""
    async with Environment(tokens={"alice": ALICE}, authorizer=AllowAuthenticated()) as env:
        assert (await Caller(env, "alice")("GET", "/api/v1/secrets")).status == 200
        assert (await Caller(env, "")("GET", "/api/v1/secrets")).status == 403


# ------------------------------------------------------------------ roles
async def test_writes_to_roles_count_at_once() -> None:
    """A grant, a change and a removal apply to the very next request."""
    async with server() as env:
        world = World(env)
        assert (await world.alice("GET", CM)).status == 403
        await world.grant("r", rule("list"))
        assert (await world.alice("GET", CM)).status == 200
        await world.admin("PATCH", f"{RBAC}/namespaces/default/roles/r", {"rules": [rule("get")]}, content_type=MERGE)
        assert (await world.alice("GET", CM)).status == 403
        await world.admin("DELETE", f"{RBAC}/namespaces/default/roles/r")
        answer = await world.alice("GET", CM)
        assert answer.json["message"] == (
            'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace'
            ' "default": RBAC: role.rbac.authorization.k8s.io "r" not found'
        )


async def test_one_name_may_be_listed_and_watched() -> None:
    """A rule with resourceNames allows list and watch only with the field selector of that name."""
    async with server() as env:
        world = World(env)
        await world.grant("r", rule("list", "deletecollection", names=("a",)))
        assert (await world.alice("GET", f"{CM}?fieldSelector=metadata.name%3Da")).status == 200
        for query in (
            "",
            "?fieldSelector=metadata.name%3Db",
            "?fieldSelector=metadata.name!%3Da",
            "?fieldSelector=%3D%3D",
        ):
            assert (await world.alice("GET", CM + query)).status == 403
        assert (await world.alice("DELETE", f"{CM}?fieldSelector=metadata.name%3Da")).status == 403


async def test_an_update_that_creates_needs_both_permissions() -> None:
    """An apply needs ``create`` only if the object is missing."""
    async with server() as env:
        world = World(env)
        await world.grant("r", rule("patch"))
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        refused = await world.alice("PATCH", f"{CM}/a?fieldManager=m", config, content_type=APPLY)
        assert (refused.status, refused.json["details"]) == (403, {"name": "a", "kind": "configmaps"})
        await world.admin("POST", CM, {"metadata": {"name": "a"}})
        assert (await world.alice("PATCH", f"{CM}/a?fieldManager=m", config, content_type=APPLY)).status == 200
        await world.grant("more", rule("create"))
        config["metadata"] = {"name": "b"}
        assert (await world.alice("PATCH", f"{CM}/b?fieldManager=m", config, content_type=APPLY)).status == 201


async def test_granting_needs_the_granted_permissions() -> None:
    """Creating or changing a role needs each of its permissions, or ``escalate``; labels can change freely."""
    async with server() as env:
        world, roles = World(env), f"{RBAC}/namespaces/default/roles"
        own = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "patch"]}
        await world.grant("r", own, rule("get"))
        ok = {"metadata": {"name": "x"}, "rules": [rule("get", names=("a",))]}
        assert (await world.alice("POST", roles, ok)).status == 201
        too_much = {"rules": [rule("get"), rule("delete")]}
        refused = await world.alice("PATCH", f"{roles}/x", too_much, content_type=MERGE)
        assert refused.status == 403
        assert refused.json["message"].endswith('held:\n{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}')
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert (await world.alice("PATCH", f"{roles}/x", labels, content_type=MERGE)).status == 200
        await world.grant("e", {**own, "verbs": ["escalate"]})
        assert (await world.alice("PATCH", f"{roles}/x", too_much, content_type=MERGE)).status == 200


async def test_aggregating_needs_everything() -> None:
    """A role with an aggregation rule needs all permissions."""
    async with server() as env:
        world = World(env)
        own = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}
        await world.grant_everywhere("r", own)
        role = {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
        refused = await world.alice("POST", f"{RBAC}/clusterroles", role)
        assert refused.json["message"] == (
            'clusterroles.rbac.authorization.k8s.io "x" is forbidden: must have cluster-admin privileges to use the'
            " aggregationRule"
        )
        await world.grant_everywhere("all", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
        assert (await world.alice("POST", f"{RBAC}/clusterroles", role)).status == 201


async def test_binding_needs_the_roles_rules_or_the_verb() -> None:
    """Creating a binding needs the role's permissions or the verb bind; a missing role is a 404."""
    async with server() as env:
        world, bindings = World(env), f"{RBAC}/namespaces/default/rolebindings"
        own = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]}
        await world.grant("r", own)

        async def bind(role: str, kind: str = "Role") -> Answer:
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
            body = {"metadata": {"name": "x"}, "roleRef": ref, "subjects": [{"kind": "User", "name": "bob"}]}
            return await world.alice("POST", f"{bindings}?dryRun=All", body)

        assert (await bind("r")).status == 201
        assert (await bind("cluster-admin", "ClusterRole")).status == 403
        missing = await bind("none")
        assert (missing.status, missing.json["details"]["kind"]) == (404, "rolebindings")
        allowed = {**own, "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["cluster-admin"]}
        await world.grant("b", allowed)
        assert (await bind("cluster-admin", "ClusterRole")).status == 201


# ------------------------------------------------------------------ acting as somebody else
@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"user": "bob"}, {"username": "bob", "groups": ["system:authenticated"]}),
        ({"user": "bob", "group": "x"}, {"username": "bob", "groups": ["x", "system:authenticated"]}),
        ({"user": "bob", "uid": "u"}, {"username": "bob", "uid": "u", "groups": ["system:authenticated"]}),
        (
            {"user": "system:serviceaccount:n:s"},
            {
                "username": "system:serviceaccount:n:s",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"],
            },
        ),
        ({"user": "system:node:n"}, {"username": "system:node:n", "groups": ["system:nodes", "system:authenticated"]}),
        (
            {"user": "bob", "extra-A.b%2Fc": "v"},
            {"username": "bob", "groups": ["system:authenticated"], "extra": {"a.b/c": ["v"]}},
        ),
    ],
)
async def test_an_admin_impersonates_users(headers: dict[str, str], wanted: JsonObject) -> None:
    """Impersonation headers set the user; its system groups are added."""
    async with server() as env:
        sent = {f"impersonate_{key}": value for key, value in headers.items()}
        answer = await Caller(env)("POST", WHOAMI, {}, **sent)
        assert answer.json["status"]["userInfo"] == wanted


async def test_impersonation_needs_its_verb() -> None:
    """Each impersonated attribute needs its own permission; afterwards the impersonated user's permissions count."""
    async with server() as env:
        world = World(env)
        as_bob = {"impersonate_user": "bob"}
        refused = await world.alice("GET", CM, **as_bob)
        assert 'cannot impersonate-on:user-info:list resource "configmaps"' in refused.json["message"]
        users = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]}
        await world.grant_everywhere("i", users)
        answer = await world.alice("GET", CM, **as_bob)
        assert (answer.status, '"bob" cannot list' in answer.json["message"]) == (403, True)
        for more, what in (
            ({"impersonate_group": "g"}, 'groups "g"'),
            ({"impersonate_uid": "u"}, 'uids.authentication.k8s.io "u"'),
            ({"impersonate_extra_k": "v"}, 'userextras.authentication.k8s.io "v"'),
        ):
            refused = await world.alice("GET", CM, **as_bob, **more)
            assert refused.json["message"].startswith(f'{what} is forbidden: User "alice" cannot impersonate resource')
        assert (await world.alice("GET", CM, impersonate_group="g")).status == 400


async def test_constrained_impersonation_checks_each_request() -> None:
    """The verb impersonate:user-info also needs an impersonate-on verb for each request."""
    async with server() as env:
        world = World(env)
        who = {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"]}
        await world.grant_everywhere("who", who)
        await world.grant("bobs", rule("list", "get"), subject={"kind": "User", "name": "bob"})
        assert (await world.alice("GET", CM, impersonate_user="bob")).status == 403
        await world.grant("on", rule("impersonate-on:user-info:list"))
        assert (await world.alice("GET", CM, impersonate_user="bob")).status == 200
        assert (await world.alice("GET", f"{CM}/a", impersonate_user="bob")).status == 403
        assert (await world.alice("GET", CM, impersonate_user="system:serviceaccount:n:s")).status == 403


# ------------------------------------------------------------------ tokens of service accounts
async def token_of(call: Caller, **spec: Any) -> str:
    """A token of the account robot."""
    answer = await call("POST", f"{ROBOT}/token", {"spec": spec})
    assert answer.status == 201, answer.json
    return str(answer.json["status"]["token"])


async def test_a_service_account_gets_in_with_its_token() -> None:
    """A token is valid for its audience while its account exists."""
    async with server() as env:
        admin = Caller(env)
        response = await admin("POST", ROBOT.rpartition("/")[0], {"metadata": {"name": "robot"}})
        token = await token_of(admin)
        user_info = (await Caller(env, token)("POST", WHOAMI, {})).json["status"]["userInfo"]
        assert (user_info["username"], user_info["uid"]) == (
            "system:serviceaccount:default:robot",
            response.json["metadata"]["uid"],
        )
        assert user_info["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")
        other = await token_of(admin, audiences=["elsewhere"])
        assert (await Caller(env, other)("GET", "/api")).status == 401
        assert (await Caller(env, token[:-4] + "AAAA")("GET", "/api")).status == 401
        await admin("DELETE", ROBOT)
        await admin("POST", ROBOT.rpartition("/")[0], {"metadata": {"name": "robot"}})
        assert (await Caller(env, token)("GET", "/api")).status == 401


async def test_a_token_runs_out() -> None:
    """A token expires a minute after its lifetime, on the server's clock."""
    async with server() as env:
        admin = Caller(env)
        await admin("POST", ROBOT.rpartition("/")[0], {"metadata": {"name": "robot"}})
        robot = Caller(env, await token_of(admin, expirationSeconds=600))
        await asyncio.sleep(650)
        assert (await robot("GET", "/api")).status == 200
        await asyncio.sleep(20)
        assert (await robot("GET", "/api")).status == 401


@pytest.mark.parametrize(
    ("spec", "status", "text"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}, 404, 'pods "p" not found'),
        (
            {"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        ({"boundObjectRef": {}}, 400, "cannot bind token to object of type /, Kind="),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "x"}},
            409,
            "the UID in the bound object reference (x) does not match the UID in record",
        ),
    ],
)
async def test_invalid_token_requests_are_rejected(spec: JsonObject, status: int, text: str) -> None:
    """A token request with an invalid lifetime or bound object is rejected."""
    async with server() as env:
        admin = Caller(env)
        await admin("POST", ROBOT.rpartition("/")[0], {"metadata": {"name": "robot"}})
        await admin("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
        answer = await admin("POST", f"{ROBOT}/token", {"spec": spec})
        assert (answer.status, text in answer.json["message"]) == (status, True), answer.json


async def test_a_bound_token_ends_with_its_secret() -> None:
    """A token becomes invalid when its bound object is deleted."""
    async with server() as env:
        admin, secrets = Caller(env), "/api/v1/namespaces/default/secrets"
        await admin("POST", ROBOT.rpartition("/")[0], {"metadata": {"name": "robot"}})
        await admin("POST", secrets, {"metadata": {"name": "s"}})
        robot = Caller(env, await token_of(admin, boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "s"}))
        assert (await robot("GET", "/api")).status == 200
        await admin("DELETE", f"{secrets}/s")
        assert (await robot("GET", "/api")).status == 401


async def test_reviews_tell_whose_token_it_is() -> None:
    """A TokenReview returns user and audiences, or the reason for the failure."""
    async with server() as env:
        admin, path = Caller(env), "/apis/authentication.k8s.io/v1/tokenreviews"
        await admin("POST", ROBOT.rpartition("/")[0], {"metadata": {"name": "robot"}})
        token = await token_of(admin)

        async def review(**spec: Any) -> Any:
            return (await admin("POST", path, {"spec": spec})).json["status"]

        good = await review(token=token)
        assert good["authenticated"] is True
        assert good["audiences"] == ["https://kubernetes.default.svc"]
        assert (await review(token="alice"))["user"]["groups"] == ["devs", "system:authenticated"]
        assert await review(token="nonsense") == {"user": {}, "error": "invalid bearer token"}
        assert (await review(token=token, audiences=["x"]))["error"].startswith(
            "[invalid bearer token, token audiences"
        )


# ------------------------------------------------------------------ reviews of access
async def test_reviews_decide_as_requests_do() -> None:
    """A SelfSubjectAccessReview has the outcome of the request itself, and the reason."""
    async with server() as env:
        world, path = World(env), "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        await world.grant("r", rule("get", "list", names=("a",)))
        for verb, name in (("get", "a"), ("get", "b"), ("list", ""), ("delete", "a")):
            attributes = {"namespace": "default", "verb": verb, "resource": "configmaps", "name": name}
            message = (await world.alice("POST", path, {"spec": {"resourceAttributes": attributes}})).json["status"]
            method = {"get": "GET", "list": "GET", "delete": "DELETE"}[verb]
            done = await world.alice(method, f"{CM}/{name}" if name else CM)
            assert message["allowed"] == (done.status != 403)


async def test_the_rules_review_lists_what_one_may() -> None:
    """A SelfSubjectRulesReview needs a namespace, and lists the user's rules in it and those of every user."""
    async with server() as env:
        world, path = World(env), "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        await world.grant("r", rule("get", names=("a",)))
        status = (await world.alice("POST", path, {"spec": {"namespace": "default"}})).json["status"]
        assert rule("get", names=("a",)) in status["resourceRules"]
        assert status["incomplete"] is False
        assert {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]} in (
            status["nonResourceRules"]
        )
        assert (await world.alice("POST", path, {"spec": {}})).status == 400


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.resourceAttributes"),
        ({"resourceAttributes": {}, "nonResourceAttributes": {"path": "/"}}, "spec.nonResourceAttributes"),
        ({"resourceAttributes": {"fieldSelector": {}}}, "spec.resourceAttributes.fieldSelector.requirements"),
        (
            {"resourceAttributes": {"labelSelector": {"requirements": [{"key": "a", "operator": "In"}]}}},
            "spec.resourceAttributes.labelSelector.requirements[0].values",
        ),
        (
            {"resourceAttributes": {"fieldSelector": {"requirements": [{"operator": "Exists", "values": ["x"]}]}}},
            "spec.resourceAttributes.fieldSelector.requirements[0].key",
        ),
    ],
)
async def test_bad_reviews_name_the_field(spec: JsonObject, field: str) -> None:
    """An invalid access review is a 422 with its field; an unknown selector operator is accepted."""
    async with server() as env:
        answer = await Caller(env)("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
        assert answer.status == 422
        assert answer.json["details"]["causes"][0]["field"] == field


async def test_a_namespace_on_what_lives_in_none_is_forgotten() -> None:
    """The namespace of a cluster-scoped object is dropped; other metadata on a review is rejected."""
    path, spec = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"resourceAttributes": {"verb": "get"}}
    async with server() as env:
        for meta, status in (({"namespace": "x"}, 201), ({"name": "x"}, 422)):
            assert (await Caller(env)("POST", path, {"metadata": meta, "spec": spec})).status == status


async def test_local_reviews_stay_in_their_namespace() -> None:
    """A LocalSubjectAccessReview asks about the namespace that it is posted to."""
    async with server() as env:
        path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
        for namespace, status in (("default", 201), ("other", 422)):
            attributes = {"namespace": namespace, "verb": "get", "resource": "pods"}
            answer = await Caller(env)("POST", path, {"spec": {"user": "bob", "resourceAttributes": attributes}})
            assert answer.status == status


# ------------------------------------------------------------------ the first objects
async def test_bootstrap_roles_exist_and_changes_persist() -> None:
    """Bootstrap roles have kube-apiserver's metadata; a deleted one is not restored while the server runs."""
    async with server() as env:
        admin = Caller(env)
        stored = (await admin("GET", f"{RBAC}/clusterroles/system:discovery")).json
        assert stored["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
        assert stored["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
        assert stored["metadata"]["managedFields"][0]["manager"] == "kube-apiserver"
        for resource, least in (("clusterroles", 65), ("clusterrolebindings", 45)):
            items = (await admin("GET", f"{RBAC}/{resource}")).json["items"]
            assert len(items) >= least
            assert len({i["metadata"]["uid"] for i in items}) == len(items)
        roles = {
            i["metadata"]["name"] for i in (await admin("GET", f"{RBAC}/namespaces/kube-system/roles")).json["items"]
        }
        assert "extension-apiserver-authentication-reader" in roles


async def test_every_bound_bootstrap_role_exists() -> None:
    """Every bootstrap binding refers to an existing role."""
    async with server() as env:
        admin = Caller(env)
        names = {i["metadata"]["name"] for i in (await admin("GET", f"{RBAC}/clusterroles")).json["items"]}
        for binding in (await admin("GET", f"{RBAC}/clusterrolebindings")).json["items"]:
            assert binding["roleRef"]["name"] in names
