"""Validating admission policies: matching, decisions and actions."""

from __future__ import annotations

from typing import Any

import pytest
from admission_policies import CM, PARAMS, RULE, bind, binding, denied, policy, put, says, write
from inprocess_webhooks import HOOKS, Hooks, configure, hook
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

NO = says("false", message="no")


async def test_a_bound_policy_applies_to_the_next_request() -> None:
    """A policy applies only while it is bound, and changes apply to the next request."""
    async with Environment() as env:
        call = Caller(env)
        await write(call, binding("Validating", "b", "p"))
        assert (await put(call, "a")).status == 201
        await write(call, policy("Validating", "p", validations=[NO]))
        assert denied(await put(call, "b")) == "no"
        change = {"spec": {"validations": [says("false", message="never")]}}
        await call("PATCH", f"{HOOKS}/validatingadmissionpolicies/p", change, content_type=MERGE)
        assert denied(await put(call, "b")) == "never"
        await call("DELETE", f"{HOOKS}/validatingadmissionpolicybindings/b")
        assert (await put(call, "b")).status == 201


@pytest.mark.parametrize(
    ("validation", "said", "code", "reason"),
    [
        (says("false"), "failed expression: false", 422, "Invalid"),
        (says(" 1 > 2 "), "failed expression: 1 > 2", 422, "Invalid"),
        (says("false", message=" text "), "text", 422, "Invalid"),
        (says("false", message="text", messageExpression="'n: ' + object.metadata.name"), "n: a", 422, "Invalid"),
        (says("false", message="text", messageExpression="' '"), "text", 422, "Invalid"),
        (says("false", message="text", messageExpression=r"'two\nlines'"), "text", 422, "Invalid"),
        (says("false", message="text", messageExpression="string(object.missing)"), "text", 422, "Invalid"),
        (
            says("false", messageExpression="'x'.replace('x', object.data.long)"),
            "failed expression: false",
            422,
            "Invalid",
        ),
        (says("false", message="m", reason="Forbidden"), "m", 403, "Forbidden"),
        (says("false", message="m", reason="RequestEntityTooLarge"), "m", 413, "RequestEntityTooLarge"),
        (
            says("object.missing", reason="Forbidden") | {"expression": "object.missing == 1"},
            "expression 'object.missing == 1' resulted in error: no such key: missing",
            422,
            "Invalid",
        ),
    ],
)
async def test_a_refusal_says_why(validation: JsonObject, said: str, code: int, reason: str) -> None:
    """A rejection has the message expression, else the message, else the expression; the reason sets the code."""
    async with Environment() as env:
        call = Caller(env)
        await bind(call, validation)
        refused = await put(call, data={"long": "x" * 6000})
        text = f"ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {said}"
        assert refused.json["message"] == f'configmaps "a" is forbidden: {text}'
        assert (refused.status, refused.json["code"], refused.json["reason"]) == (code, code, reason)
        assert refused.json["details"] == {"name": "a", "kind": "configmaps", "causes": [{"message": text}]}


async def test_actions_decide_what_comes_of_a_failure() -> None:
    """Deny rejects, Warn sends a warning, Audit only records; several bindings act independently."""
    async with Environment() as env:
        call = Caller(env)
        await bind(call, NO, says("object.metadata.name != 'a'"), bound={"validationActions": ["Warn", "Audit"]})
        allowed = await put(call)
        lead = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': "
        assert allowed.status == 201
        assert allowed.headers["warning"] == f"299 - \"{lead}failed expression: object.metadata.name != 'a'\""
        await write(call, binding("Validating", "q", "p", validationActions=["Audit"]))
        assert (await put(call, "b")).status == 201
        await write(call, binding("Validating", "z", "p", validationActions=["Deny"]))
        assert "with binding 'z'" in (await put(call, "c")).json["message"]


async def test_the_first_policy_by_name_gives_the_answer() -> None:
    """Policies and bindings are evaluated by name, and not by their order of creation."""
    async with Environment() as env:
        call = Caller(env)
        for name in ("z", "b", "c"):
            await bind(call, says("false", message=name), name=name)
        await write(call, binding("Validating", "a", "b"))
        assert "'b' with binding 'a' denied" in (await put(call)).json["message"]


async def test_the_failure_policy_decides_about_errors() -> None:
    """With Ignore, an expression with an error passes but a false one does not; with Fail, neither passes."""
    async with Environment() as env:
        call = Caller(env)
        broken = says("object.missing == 1", message="never shown")
        await bind(call, broken, name="ignoring", failurePolicy="Ignore")
        assert (await put(call)).status == 201
        condition = {"name": "c", "expression": "object.missing == 1"}
        await bind(call, NO, name="unsure", failurePolicy="Ignore", matchConditions=[condition])
        assert (await put(call, "b")).status == 201
        await bind(call, says("true"), name="sure", matchConditions=[condition])
        assert denied(await put(call, "c")).startswith("expression 'object.missing == 1' resulted in error")
        missed = {"name": "not", "expression": "false"}
        await call("DELETE", f"{HOOKS}/validatingadmissionpolicies/sure")
        await bind(call, NO, name="other", matchConditions=[condition, missed])
        assert (await put(call, "c")).status == 201


async def test_expressions_see_the_request_and_its_namespace() -> None:
    """Expressions read both objects, the request with user and options, and the namespace object."""
    sees = [
        "object.data.k == 'v' && oldObject == null",
        "request.operation == 'CREATE' && request.name == 'a' && request.namespace == 'default'",
        "request.kind.kind == 'ConfigMap' && request.requestResource.resource == 'configmaps'",
        "request.userInfo.username == 'alice' && 'devs' in request.userInfo.groups",
        "request.dryRun && request.options.dryRun == ['All']",
        "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.serviceAccount('default', 'x').group('').resource('pods').check('get').allowed()",
    ]
    async with Environment() as env:
        alice = env.add_user("alice", groups=["devs", "system:masters"])
        await bind(Caller(env), *map(says, sees))
        response = await put(Caller(env, alice.config.token), query="?dryRun=All", data={"k": "v"})
        assert response.status == 201, response.json["message"]


async def test_what_is_deleted_is_the_old_object() -> None:
    """For DELETE only oldObject is set; a Namespace has no namespaceObject."""
    rule = {**RULE, "operations": ["DELETE"], "resources": ["configmaps", "namespaces"]}
    async with Environment() as env:
        call = Caller(env)
        await put(call, "a", data={"keep": "yes"})
        expression = "object == null && (namespaceObject == null || !has(oldObject.data.keep))"
        await bind(call, says(expression, message="kept"), matchConstraints={"resourceRules": [rule]})
        assert denied(await call("DELETE", f"{CM}/a")) == "kept"
        await put(call, "b", data={"k": "v"})
        assert (await call("DELETE", f"{CM}/b")).status == 200
        await put(call, "n", "/api/v1/namespaces")
        assert (await call("DELETE", "/api/v1/namespaces/n")).status == 200


@pytest.mark.parametrize(
    ("match", "meant"),
    [
        ({}, {"a", "b", "c"}),
        ({"resourceRules": [{**RULE, "resourceNames": ["a", "c"]}]}, {"a", "c"}),
        ({"excludeResourceRules": [{**RULE, "resourceNames": ["a"]}]}, {"b", "c"}),
        ({"excludeResourceRules": [RULE]}, set()),
        ({"objectSelector": {"matchLabels": {"l": "b"}}}, {"b"}),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, set()),
        ({"resourceRules": [{**RULE, "scope": "Cluster"}]}, set()),
    ],
)
@pytest.mark.parametrize("where", ["policy", "binding"])
async def test_policies_and_bindings_match_alike(match: JsonObject, meant: set[str], where: str) -> None:
    """Rules, names, exclusions and selectors of both policy and binding must match."""
    async with Environment() as env:
        call = Caller(env)
        if where == "policy":
            await bind(call, NO, matchConstraints={"resourceRules": [RULE], **match})
        else:
            await bind(call, NO, bound={"matchResources": match})
        refused = {name for name in "abc" if denied(await put(call, name, labels={"l": name}))}
        assert refused == meant


async def test_other_versions_are_seen_in_the_version_of_the_rule() -> None:
    """Equivalent, the default, also matches other versions and converts them; Exact does not."""
    rule = {**RULE, "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target}
    url = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    expression = "request.kind.version == 'v2' || object.spec.targetCPUUtilizationPercentage != 80"
    async with Environment() as env:
        call = Caller(env)
        exact = {"resourceRules": [rule], "matchPolicy": "Exact"}
        await bind(call, says(expression, message="exact"), name="a", matchConstraints=exact)
        assert (await put(call, "h", url, spec=spec)).status == 201
        await bind(call, says(expression, message="eq"), name="b", matchConstraints={"resourceRules": [rule]})
        assert denied(await put(call, "i", url, spec=spec)) == "eq"


async def test_nobody_locks_themselves_out() -> None:
    """Policies, bindings and access reviews are exempt from policies; webhook configurations are not."""
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    async with Environment() as env:
        call = Caller(env)
        await bind(call, NO, matchConstraints={"resourceRules": [rule]})
        await bind(call, NO, name="more")
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        spec = {"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}}
        url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await call("POST", url, review | spec)).status == 201
        assert denied(await configure(call, hook())) == "no"
        assert (await call("DELETE", f"{HOOKS}/validatingadmissionpolicies/p")).status == 200


async def test_generated_names_exist_before_validation() -> None:
    """Validating policies read the generated name; mutating policies do not have it yet."""
    async with Environment() as env:
        call = Caller(env)
        await bind(call, says("request.name == object.metadata.name && request.name.startsWith('gen-')"))
        assert (await call("POST", CM, {"metadata": {"generateName": "gen-"}})).status == 201
        assert (await call("POST", CM, {"metadata": {"generateName": "other-"}})).status == 422


async def test_policies_run_before_webhooks() -> None:
    """A request that a policy rejects reaches no validating webhook."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": True}), Caller(env)
        hooks.join(env)
        await configure(call, hook())
        await bind(call, NO)
        assert denied(await put(call)) == "no"
        assert hooks.asked == []


async def test_variables_are_lazy_and_may_use_earlier_ones() -> None:
    """A variable may use earlier ones, and is evaluated only when it is used."""
    variables = [
        {"name": "numbers", "expression": "object.data.map(k, int(object.data[k]))"},
        {"name": "total", "expression": "variables.numbers.sum()"},
        {"name": "broken", "expression": "object.missing.more"},
    ]
    async with Environment() as env:
        call = Caller(env)
        total = says("variables.total < 10", messageExpression="'total ' + string(variables.total)")
        await bind(call, total, says("!has(object.data.z) || variables.broken"), variables=variables)
        assert (await put(call, "a", data={"x": "4", "y": "5"})).status == 201
        assert denied(await put(call, "b", data={"x": "4", "y": "6"})) == "total 10"
        reason = 'composited variable "broken" fails to evaluate: no such key: missing'
        assert denied(await put(call, "c", data={"z": "1"})).endswith(f"resulted in error: {reason}")


async def test_the_audit_log_has_failures_and_annotations() -> None:
    """The audit log has the first audited failure and annotation values; null and blank values are omitted."""
    annotations = [
        {"key": "name", "valueExpression": "'<' + object.metadata.name + '>'"},
        {"key": "none", "valueExpression": "null"},
        {"key": "blank", "valueExpression": "'  '"},
    ]
    async with Environment() as env:
        call = Caller(env)
        validations = [says("true"), says("object.metadata.name != 'a'", message="not a"), NO]
        await bind(call, *validations, auditAnnotations=annotations, bound={"validationActions": ["Audit"]})
        await put(call)
        record = env.audit.select(verb="create", resource="configmaps")[-1]
        failure = '[{"message":"not a","policy":"p","binding":"p","expressionIndex":1,"validationActions":["Audit"]}]'
        key = "validation.policy.admission.k8s.io/validation_failure"
        assert record.event()["annotations"] == {key: failure, "p/name": "<a>"}
        await bind(call, name="q", auditAnnotations=[{"key": "k", "valueExpression": "string(object.none)"}])
        assert denied(await put(call, "b")).endswith("no such key: none")


# ------------------------------------------------------------------ budgets
@pytest.mark.slow
async def test_an_expression_that_costs_too_much_is_stopped() -> None:
    """Each expression has a cost limit, and all expressions of a policy share another one."""
    many = {f"k{i}": "v" for i in range(150)}
    costly = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))"
    half = "object.data.all(a, object.data.all(b, object.data.map(c, c).size() > 0))"
    async with Environment() as env:
        call = Caller(env)
        await bind(call, says(costly))
        assert denied(await put(call, data=many)).endswith("operation cancelled: actual cost limit exceeded")
        await call("DELETE", f"{HOOKS}/validatingadmissionpolicies/p")
        less = {f"k{i}": "v" for i in range(35)}
        await bind(call, *[says(half)] * 20, name="q")
        text = "validation failed due to running out of cost budget, no further validation rules will be run"
        assert denied(await put(call, data=less)) == text
        assert (await put(call, data={"k": "v"})).status == 201


# ------------------------------------------------------------------ parameters
def ref(**spec: Any) -> JsonObject:
    """A reference to parameters."""
    return {"paramRef": {"parameterNotFoundAction": "Deny", **spec}}


AT_MOST = says("object.data.size() <= int(params.data.max)", messageExpression="'max ' + params.metadata.name")
FEW: JsonObject = {
    "matchConditions": [{"name": "not-params", "expression": "!has(object.data.max)"}],
    "paramKind": PARAMS,
}
THREE = {"a": "1", "b": "2", "c": "3"}


async def test_each_parameter_judges_for_itself() -> None:
    """Each parameter that a selector finds now, in the namespace of the object, can reject the request."""
    async with Environment() as env:
        call = Caller(env)
        for name, most in (("wide", "9"), ("tight", "2"), ("other", "0")):
            await put(call, name, labels={"limit": "no" if name == "other" else "yes"}, data={"max": most})
        await bind(call, AT_MOST, bound=ref(selector={"matchLabels": {"limit": "yes"}}), **FEW)
        assert denied(await put(call, "x", data=THREE)) == "max tight"
        await call("PATCH", f"{CM}/tight", {"data": {"max": "3"}}, content_type=MERGE)
        assert (await put(call, "x", data=THREE)).status == 201
        elsewhere = "/api/v1/namespaces/kube-system/configmaps"
        missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        assert denied(await put(call, "x", elsewhere, data=THREE)) == missing


async def test_what_is_missing_is_allowed_or_refused() -> None:
    """``parameterNotFoundAction`` decides about missing parameters; a binding without a paramRef passes null."""
    async with Environment() as env:
        call = Caller(env)
        await bind(call, AT_MOST, bound=ref(name="none", parameterNotFoundAction="Allow"), **FEW)
        assert (await put(call, "a", data=THREE)).status == 201
        await write(call, binding("Validating", "other", "p"))
        assert "resulted in error" in denied(await put(call, "b", data=THREE))


async def test_parameters_of_custom_kinds_and_of_none() -> None:
    """A parameter kind works once it is served; cluster-scoped parameters have no namespace."""
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "names": {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"},
            "scope": "Cluster",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    kind = {"apiVersion": "x.example.com/v1", "kind": "Limit"}
    async with Environment() as env:
        call = Caller(env)
        await bind(call, says("object.data.size() <= params.max"), paramKind=kind, bound=ref(name="l"))
        unknown = "failed to find resource referenced by paramKind: 'x.example.com/v1, Kind=Limit'"
        assert denied(await put(call, data=THREE)) == f"failed to configure policy: {unknown}"
        await call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert denied(await put(call, data=THREE)).startswith("failed to configure binding: no params found")
        limit = {**kind, "metadata": {"name": "l"}, "max": 2}
        assert (await call("POST", "/apis/x.example.com/v1/limits", limit)).status == 201
        assert denied(await put(call, data=THREE)) == "failed expression: object.data.size() <= params.max"
        await write(call, binding("Validating", "odd", "p", **ref(name="l", namespace="default")))
        wrong = "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        assert denied(await put(call, data={"a": "1"})) == wrong


async def test_a_request_without_a_namespace_needs_one_named() -> None:
    """A namespaced parameter cannot be found from a cluster-scoped object."""
    rule = {"operations": ["CREATE"], "apiGroups": ["scheduling.k8s.io"], "apiVersions": ["v1"]}
    match = {"resourceRules": [{**rule, "resources": ["priorityclasses"]}]}
    url = "/apis/scheduling.k8s.io/v1/priorityclasses"
    async with Environment() as env:
        call = Caller(env)
        await bind(call, says("params.data.ok == 'yes'"), paramKind=PARAMS, matchConstraints=match, bound=ref(name="x"))
        text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        assert denied(await put(call, "c", url, value=1)) == f"failed to configure binding: {text}"
        await put(call, "x", data={"ok": "yes"})
        change = {"spec": {"paramRef": {"namespace": "default"}}}
        await call("PATCH", f"{HOOKS}/validatingadmissionpolicybindings/p", change, content_type=MERGE)
        assert (await put(call, "c", url, value=1)).status == 201


async def test_parameters_need_read_permission() -> None:
    """A user without get permission for the parameters cannot write policies and bindings that use them."""
    rules = [
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["mine"]},
    ]
    role = {"metadata": {"name": "writer"}, "rules": rules}
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    granted = {"kind": "ClusterRole", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    async with Environment() as env:
        call = Caller(env)
        await call("POST", f"{rbac}/clusterroles", role)
        grant = {"metadata": {"name": "writer"}, "subjects": [subject], "roleRef": granted}
        await call("POST", f"{rbac}/clusterrolebindings", grant)
        bob = Caller(env, env.add_user("bob").config.token)
        kind = {"apiVersion": "v1", "kind": "Secret"}
        created = policy("Validating", "p", validations=[NO], paramKind=kind)
        refused = await write(bob, created)
        [cause] = refused.json["details"]["causes"]
        assert (refused.status, cause["field"], cause["reason"]) == (422, "spec.paramKind", "FieldValueForbidden")
        assert '"get" permission on all objects of the referenced paramKind (kind=Secret' in cause["message"]
        assert (await write(bob, policy("Validating", "q", validations=[NO]))).status == 201
        assert (await write(call, created)).status == 201
        reference = ref(name="theirs", namespace="default")
        refused = await write(bob, binding("Validating", "b", "p", **reference))
        assert 'does not have "get" permission on the object' in refused.json["details"]["causes"][0]["message"]
        assert (
            await write(bob, binding("Validating", "b", "p", **ref(name="mine", namespace="default")))
        ).status == 201
