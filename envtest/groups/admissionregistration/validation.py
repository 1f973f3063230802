"""Validation of webhook configurations, admission policies and their bindings.

Upstream: pkg/apis/admissionregistration/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from envtest.groups.common import validation
from envtest.groups.common.conditions import validate_conditions as validate_status_conditions
from envtest.groups.common.label_selectors import check_label_selector
from envtest.groups.common.webhook_client_config import (
    has_known_version,
    validate_client_config,
    validate_review_versions,
)
from opsdk.apimachinery.validation import dns_1035_label, dns_subdomain, path_segment, qualified_name
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.policies.compiled_policy import ANNOTATION, CONFIGURATION, PATCH
from opsdk.apiserver.expressions.activation import CompiledExpression, PolicyCompiler
from opsdk.apiserver.expressions.admission import compile_condition
from opsdk.apiserver.expressions.escaping import RESERVED
from opsdk.cel.types import BOOL, STRING
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue


def _choice(hook: JsonObject, field: str, key: str, allowed: Sequence[str]) -> Iterator[Cause]:
    value = hook.get(key)
    if value is not None and value not in allowed:
        yield api_errors.unsupported(f"{field}.{key}", value, allowed)


_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OLD_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_VERSIONS = "must specify one of v1, v1beta1"


def validate_webhooks(
    hooks: Sequence[JsonObject], old: Sequence[JsonObject] = (), *, mutating: bool
) -> Iterator[Cause]:
    """Validate the webhooks of a configuration; ratcheting accepts errors that the `old` ones already had."""
    recognized = all(has_known_version(hook.get("admissionReviewVersions")) for hook in old)
    unique = len({hook.get("name") for hook in old}) == len(old)
    quiet = all(hook.get("sideEffects") in _SIDE_EFFECTS for hook in old)
    names: set[str] = set()
    for index, hook in enumerate(hooks):
        field, name = f"webhooks[{index}]", hook.get("name") or ""
        yield from _webhook(hook, field, _SIDE_EFFECTS if quiet else _OLD_SIDE_EFFECTS, mutating=mutating)
        yield from validate_review_versions(
            hook.get("admissionReviewVersions"),
            f"{field}.admissionReviewVersions",
            missing=_VERSIONS,
            recognized=recognized,
        )
        if unique and name and name in names:
            yield api_errors.duplicate(f"{field}.name", name)
        names.add(name)


def _webhook(hook: JsonObject, field: str, side_effects: Sequence[str], *, mutating: bool) -> Iterator[Cause]:
    """Yield what is wrong with a webhook of a configuration."""
    name = hook.get("name") or ""
    name_path = f"{field}.name"
    if not name:
        yield api_errors.required(name_path)
    elif problems := dns_subdomain(name):
        yield api_errors.invalid_value(name_path, name, ",".join(problems))
    elif name.count(".") < 2:
        reason = "should be a domain with at least three segments separated by dots"
        yield api_errors.invalid_value(name_path, name, reason)
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from validate_rule(rule, f"{field}.rules[{index}]")
    yield from _choice(hook, field, "failurePolicy", ("Fail", "Ignore"))
    yield from _choice(hook, field, "matchPolicy", ("Equivalent", "Exact"))
    if hook.get("sideEffects") is None:
        yield api_errors.required(f"{field}.sideEffects", f"must specify one of {', '.join(side_effects)}")
    yield from _choice(hook, field, "sideEffects", side_effects)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        reason = "the timeout value must be between 1 and 30 seconds"
        yield api_errors.invalid_value(f"{field}.timeoutSeconds", timeout, reason)
    for key in ("namespaceSelector", "objectSelector"):
        yield from check_label_selector(hook.get(key) or {}, f"{field}.{key}")
    if mutating:
        yield from _choice(hook, field, "reinvocationPolicy", ("Never", "IfNeeded"))
    yield from validate_client_config(hook.get("clientConfig") or {}, f"{field}.clientConfig")
    yield from validate_match_conditions(hook.get("matchConditions") or (), f"{field}.matchConditions")


_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MAX_CONDITIONS = 64


def validate_rule(rule: JsonObject, field: str) -> Iterator[Cause]:
    """Validate operations, groups, versions, resources and scope of a rule."""
    operations = rule.get("operations") or []
    if not operations:
        yield api_errors.required(f"{field}.operations")
    if len(operations) > 1 and "*" in operations:
        reason = "if '*' is present, must not specify other operations"
        yield api_errors.invalid_value(f"{field}.operations", operations, reason)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield api_errors.unsupported(f"{field}.operations[{index}]", operation, _OPERATIONS)
    for key, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        yield from _validate_wildcard(rule.get(key) or [], f"{field}.{key}", what)
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield api_errors.required(f"{field}.apiVersions[{index}]")
    yield from _resources(rule.get("resources") or [], f"{field}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        yield api_errors.unsupported(f"{field}.scope", rule["scope"], _SCOPES)


def _validate_wildcard(values: Sequence[str], field: str, noun: str) -> Iterator[Cause]:
    """Validate that there are values, and that a wildcard is the only one."""
    if not values:
        yield api_errors.required(field)
    if len(values) > 1 and "*" in values:
        yield api_errors.invalid_value(field, list(values), f"if '*' is present, must not specify other {noun}")


def _resources(resources: Sequence[str], field: str) -> Iterator[Cause]:
    if not resources:
        yield api_errors.required(field)
    yield from _subresources(resources, field)
    if len(resources) > 1 and "*/*" in resources:
        yield api_errors.invalid_value(field, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in text and text not in ("", "*") for text in resources):
        reason = "if '*' is present, must not specify other resources without subresources"
        yield api_errors.invalid_value(field, list(resources), reason)


def _subresources(resources: Sequence[str], field: str) -> Iterator[Cause]:
    """Validate that no wildcard covers another entry."""
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, text in enumerate(resources):
        item_path = f"{field}[{index}]"
        resource, slash, sub = text.partition("/")
        if not text:
            yield api_errors.required(item_path)
        if not slash:
            continue
        if resource in whole:
            yield api_errors.invalid_value(item_path, text, f"if '{resource}/*' is present, must not specify {text}")
        if sub in everywhere:
            yield api_errors.invalid_value(item_path, text, f"if '*/{sub}' is present, must not specify {text}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)


# ------------------------------------------------------------------ match conditions
def validate_match_conditions(conditions: Sequence[JsonObject], field: str, *, params: bool = False) -> Iterator[Cause]:
    """Validate names (unique) and expressions; with `params`, expressions may use ``params``."""
    if len(conditions) > _MAX_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items"
        yield Cause(reason="FieldValueTooMany", message=text, field=field)
    unique: set[str] = set()
    for index, condition in enumerate(conditions):
        item_path, name = f"{field}[{index}]", condition.get("name") or ""
        yield from _match_condition(str(condition.get("expression") or ""), f"{item_path}.expression", params=params)
        if not name:
            yield api_errors.required(f"{item_path}.name")
            continue
        yield from validation.each(qualified_name(name), name, f"{item_path}.name")
        if name in unique:
            yield api_errors.duplicate(f"{item_path}.name", name)
        unique.add(name)


def _match_condition(expression: str, field: str, *, params: bool) -> Iterator[Cause]:
    if not expression.strip():
        yield api_errors.required(field)
        return
    problem = compile_condition(expression.strip(), params=params)
    if isinstance(problem, str):
        yield api_errors.invalid_value(field, expression.strip(), problem)


MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
"""The operations that mutating policies may match: DELETE has no object to change."""
_ACTIONS = ("Audit", "Deny", "Warn")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and"
    " headers serves no purpose)"
)
_EXCLUSIVE = "name and selector are mutually exclusive"


def one_of(tree: JsonObject, field: str, key: str, allowed: Sequence[str]) -> Iterator[Cause]:
    """Validate a required value against the allowed ones."""
    value = tree.get(key)
    if value is None:
        yield api_errors.required(f"{field}.{key}")
    elif value not in allowed:
        yield api_errors.unsupported(f"{field}.{key}", value, allowed)


# ------------------------------------------------------------------ match resources
def match_constraints(match: JsonObject | None, field: str, *, operations: Sequence[str] = ()) -> Iterator[Cause]:
    """Validate the match constraints of a policy: at least one rule; `operations` are the allowed ones."""
    if match is None:
        yield api_errors.required(field)
        return
    yield from match_resources(match, field)
    if not match.get("resourceRules"):
        yield api_errors.required(f"{field}.resourceRules")
    if operations:
        yield from only_operations(match, field, operations)


def match_resources(match: JsonObject, field: str) -> Iterator[Cause]:
    """Validate selectors and rules."""
    yield from one_of(match, field, "matchPolicy", ("Equivalent", "Exact"))
    for key in ("namespaceSelector", "objectSelector"):
        if match.get(key) is None:
            yield api_errors.required(f"{field}.{key}")
        else:
            yield from check_label_selector(match[key], f"{field}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or ()):
            yield from _named_rule(rule, f"{field}.{key}[{index}]")


def only_operations(match: JsonObject, field: str, allowed: Sequence[str]) -> Iterator[Cause]:
    """Validate that rules name no operation but these."""
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in allowed:
                yield api_errors.unsupported(f"{field}.resourceRules.operations", operation, allowed)


def _named_rule(rule: JsonObject, field: str) -> Iterator[Cause]:
    unique: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        item_path = f"{field}.resourceNames[{index}]"
        yield from _faults(name, item_path, path_segment)
        if name in unique:
            yield api_errors.duplicate(item_path, name)
        unique.add(name)
    yield from validate_rule(rule, field)


def _faults(name: str, field: str, rule: Callable[[str], Sequence[str]]) -> Iterator[Cause]:
    for reason in rule(name):
        yield api_errors.invalid_value(field, name, reason)


# ------------------------------------------------------------------ parameters
def param_kind(kind: JsonObject, field: str) -> Iterator[Cause]:
    """Validate apiVersion and kind of ``paramKind``."""
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield api_errors.required(f"{field}.apiVersion")
    elif version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        yield api_errors.invalid_value(f"{field}.apiVersion", version, text)
    else:
        yield from _group_version(version, f"{field}.apiVersion")
    if not name:
        yield api_errors.required(f"{field}.kind")
    elif problems := dns_1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        yield api_errors.invalid_value(f"{field}.kind", name, text)


def _group_version(text: str, field: str) -> Iterator[Cause]:
    group, _, version = text.rpartition("/")
    if group and (problems := dns_subdomain(group)):
        yield api_errors.invalid_value(field, group, ",".join(problems))
    if not version:
        yield api_errors.invalid_value(field, text, "version must be specified")
    elif problems := dns_1035_label(version):
        yield api_errors.invalid_value(field, version, ",".join(problems))


def param_ref(ref: JsonObject, field: str) -> Iterator[Cause]:
    """Validate ``paramRef``: a name or a selector, and the action when no param is found."""
    name, selector = ref.get("name") or "", ref.get("selector")
    if name:
        yield from _faults(name, f"{field}.name", path_segment)
        if selector is not None:
            yield api_errors.not_allowed(f"{field}.name", _EXCLUSIVE)
    if selector is not None:
        yield from check_label_selector(selector, f"{field}.selector")
        if name:
            yield api_errors.not_allowed(f"{field}.selector", _EXCLUSIVE)
    if not name and selector is None:
        yield api_errors.required(field, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction") or ""
    if not action:
        yield api_errors.required(f"{field}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield api_errors.unsupported(f"{field}.parameterNotFoundAction", action, ("Deny", "Allow"))


# ------------------------------------------------------------------ bindings
def validate_policy_binding(spec: JsonObject, field: str, *, mutating: bool) -> Iterator[Cause]:
    """Validate the spec of a binding."""
    policy = spec.get("policyName") or ""
    if not policy:
        yield api_errors.required(f"{field}.policyName")
    else:
        yield from _faults(policy, f"{field}.policyName", dns_subdomain)
    if spec.get("paramRef") is not None:
        yield from param_ref(spec["paramRef"], f"{field}.paramRef")
    match = spec.get("matchResources")
    if match is not None:
        yield from match_resources(match, f"{field}.matchResources")
        if mutating:
            yield from only_operations(match, f"{field}.matchResources", MUTABLE)
    if not mutating:
        yield from _actions(spec.get("validationActions") or [], f"{field}.validationActions")


def _actions(actions: Sequence[str], field: str) -> Iterator[Cause]:
    unique: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield api_errors.unsupported(f"{field}[{index}]", action, _ACTIONS)
        if action in unique:
            yield api_errors.duplicate(f"{field}[{index}]", action)
        unique.add(action)
    if {"Deny", "Warn"} <= unique:
        yield api_errors.invalid_value(field, list(actions), _BOTH)
    if not unique:
        yield api_errors.required(field, "at least one validation action is required")


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_NOTHING = "validations or auditAnnotations must contain at least one item"
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION = 5 * 1024
"""The maximum length of an audit annotation's expression in bytes."""
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def validate_policy(obj: JsonObject, old: JsonObject | None = None, *, mutating: bool) -> Iterator[Cause]:
    """Validate a policy; match conditions are compiled if the `old` spec differs in their inputs."""
    spec: JsonObject = obj.get("spec") or {}
    params = spec.get("paramKind") is not None
    compiler = PolicyCompiler(params=params, composed=mutating or bool(spec.get("variables")))
    yield from one_of(spec, "spec", "failurePolicy", ("Fail", "Ignore"))
    if params:
        yield from param_kind(spec["paramKind"], "spec.paramKind")
    operations = MUTABLE if mutating else ()
    yield from match_constraints(spec.get("matchConstraints"), "spec.matchConstraints", operations=operations)
    if old is None or any(spec.get(key) != old.get(key) for key in ("paramKind", "matchConditions")):
        yield from validate_match_conditions(spec.get("matchConditions") or (), "spec.matchConditions", params=params)
    for index, variable in enumerate(spec.get("variables") or ()):
        field = f"spec.variables[{index}]"
        variable_name, expression = variable.get("name") or "", variable.get("expression") or ""
        if not variable_name.strip():
            yield api_errors.required(f"{field}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(variable_name) or variable_name in RESERVED:
            yield api_errors.invalid_value(f"{field}.name", variable_name, "must be a valid CEL identifier")
        if not expression.strip():
            yield api_errors.required(f"{field}.expression", "expression is not specified")
        else:
            yield from _fault(compiler.variable(variable_name, expression), f"{field}.expression")
    name = obj["metadata"].get("name") or ""
    if not mutating:
        yield from _validations(compiler, name, spec)
        return
    mutations = spec.get("mutations") or ()
    if not mutations:
        yield api_errors.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation(compiler, mutation, f"spec.mutations[{index}]")
    yield from one_of(
        {"reinvocationPolicy": spec.get("reinvocationPolicy") or None},
        "spec",
        "reinvocationPolicy",
        ("IfNeeded", "Never"),
    )


def validate_policy_status(status: JsonObject) -> Iterator[Cause]:
    """Validate the status of a policy: type checker warnings and conditions."""
    checking: JsonObject = status.get("typeChecking") or {}
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        for key in ("warning", "fieldRef"):
            if not (warning.get(key) or "").strip():
                yield api_errors.required(f"status.typeChecking.expressionWarnings[{index}].{key}")
    yield from validate_status_conditions(status.get("conditions") or (), "status.conditions")


def _fault(compiled: CompiledExpression, field: str, value: str = "") -> Iterator[Cause]:
    if compiled.fault:
        yield api_errors.invalid_value(field, value or compiled.text, compiled.fault)


# ------------------------------------------------------------------ ValidatingAdmissionPolicy
def _validations(compiler: PolicyCompiler, name: str, spec: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with a policy's validations and audit annotations."""
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield api_errors.required("spec.validations", _NOTHING)
        yield api_errors.required("spec.auditAnnotations", _NOTHING)
        return
    for index, each in enumerate(validations):
        yield from _validation(compiler, each, f"spec.validations[{index}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield api_errors.invalid_value("spec.auditAnnotations", list(annotations), text)
    values: set[JsonValue] = set()
    for index, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        yield from _annotation(compiler, name, annotation, field)
        if key in values:
            yield api_errors.duplicate(f"{field}.key", key)
        values.add(key)


def _validation(compiler: PolicyCompiler, item: JsonObject, field: str) -> Iterator[Cause]:
    """Yield what is wrong with one validation: its expressions, message and reason."""
    expression, message_expression = item.get("expression") or "", item.get("messageExpression") or ""
    if not expression.strip():
        yield api_errors.required(f"{field}.expression", "expression is not specified")
    else:
        yield from _fault(compiler.compile(expression, (BOOL,)), f"{field}.expression")
    if message_expression and not message_expression.strip():
        yield api_errors.invalid_value(
            f"{field}.messageExpression", message_expression, "must be non-empty if specified"
        )
    elif message_expression:
        yield from _fault(
            compiler.compile(message_expression, (STRING,), authorizer=False), f"{field}.messageExpression"
        )
    message = item.get("message") or ""
    if message and not message.strip():
        yield api_errors.invalid_value(f"{field}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield api_errors.invalid_value(f"{field}.message", message, "must not contain line breaks")
    if item.get("reason") is not None and item["reason"] not in _REASONS:
        yield api_errors.unsupported(f"{field}.reason", item["reason"], _REASONS)


def _annotation(compiler: PolicyCompiler, name: str, annotation: JsonObject, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an audit annotation: its key and its expression."""
    key, written = annotation.get("key") or "", annotation.get("valueExpression") or ""
    if name:
        for reason in qualified_name(f"{name}/{key}"):
            yield api_errors.invalid_value(f"{field}.key", f"{name}/{key}", reason)
    else:
        yield api_errors.invalid_value(f"{field}.key", key, "requires metadata.name be non-empty")
    expression = written.strip()
    if not expression:
        yield api_errors.required(f"{field}.valueExpression", "valueExpression is not specified")
    elif len(expression.encode()) > _MAX_ANNOTATION:
        yield api_errors.required(f"{field}.valueExpression", f"must not exceed {_MAX_ANNOTATION} bytes in length")
    else:
        yield from _fault(compiler.compile(expression, ANNOTATION), f"{field}.valueExpression", written)


# ------------------------------------------------------------------ MutatingAdmissionPolicy
def _mutation(compiler: PolicyCompiler, mutation: JsonObject, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a mutation: its type, and the expression of that type only."""
    sort = mutation.get("patchType") or ""
    if not sort:
        yield api_errors.required(f"{field}.patchType")
        return
    if sort not in _PATCHES:
        yield api_errors.unsupported(f"{field}.patchType", sort, tuple(_PATCHES))
        return
    key = _PATCHES[sort]
    [other] = set(_PATCHES.values()) - {key}
    written = mutation.get(key)
    if written is None:
        yield api_errors.required(f"{field}.{key}", f"must be specified when patchType is {sort}")
    else:
        expression = (written.get("expression") or "").strip()
        if not expression:
            yield api_errors.required(f"{field}.{key}.expression")
        else:
            compiled = compiler.compile(expression, PATCH if sort == "JSONPatch" else CONFIGURATION, patches=True)
            yield from _fault(compiled, f"{field}.{key}.expression")
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {sort}"
        yield api_errors.invalid_value(f"{field}.{other}", f"{{{other}}}", text)
