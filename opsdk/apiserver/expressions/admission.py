"""The CEL environment of admission: object, oldObject, request, params, authorizer.

Upstream: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go (v1.36).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from opsdk.apiserver.expressions.authorizer import AUTHORIZER, RESOURCE_CHECK
from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.apiserver.expressions.mutation import MutationTypes, construct
from opsdk.base.text_cache import text_cache
from opsdk.cel.environment import CelEnvironment, Program
from opsdk.cel.errors import CelCompileError
from opsdk.cel.library.texts import JSON_PATCH_LIBRARY
from opsdk.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, object_of
from opsdk.structured_merge.value import JsonObject

_KIND: Final = object_of("kubernetes.GroupVersionKind", {"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE: Final = object_of(
    "kubernetes.GroupVersionResource", {"group": STRING, "version": STRING, "resource": STRING}
)
_USER: Final = object_of(
    "kubernetes.UserInfo",
    {"username": STRING, "uid": STRING, "groups": list_of(STRING), "extra": map_of(STRING, list_of(STRING))},
)
REQUEST: Final = object_of(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_TEXTS: Final = map_of(STRING, STRING)
_CONDITION: Final = object_of(
    "kubernetes.NamespaceCondition",
    {"status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING},
)
_METADATA: Final = object_of(
    "kubernetes.NamespaceMetadata",
    {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": list_of(STRING),
    },
)
_SPEC: Final = object_of("kubernetes.NamespaceSpec", {"finalizers": list_of(STRING)})
_STATUS: Final = object_of("kubernetes.NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING})
NAMESPACE: Final = object_of("kubernetes.Namespace", {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS})
_TYPES: Final = (_KIND, _RESOURCE, _USER, REQUEST, _CONDITION, _METADATA, _SPEC, _STATUS, NAMESPACE)

MATCH_BUDGET: Final = 2_500_000
"""Cost limit of all match conditions of a webhook or policy."""


@cache
def admission_environment(*, params: bool = False, authorizer: bool = True, patches: bool = False) -> CelEnvironment:
    """Return the environment of admission expressions; `patches` adds the types of mutations."""
    variables = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE, "request": REQUEST}
    if params:
        variables["params"] = DYN
    if authorizer:
        variables |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    environment = kubernetes_environment().extend(variables=variables, types={type_.name: type_ for type_ in _TYPES})
    return with_mutations(environment) if patches else environment


def with_mutations(environment: CelEnvironment, root: Type = DYN) -> CelEnvironment:
    """Return the environment with the types of mutations; `root` is the type of the object."""
    return environment.extend(types=MutationTypes(root), construct=construct, libraries=[JSON_PATCH_LIBRARY])


def compile_typed(environment: CelEnvironment, expression: str, return_types: tuple[Type, ...]) -> Program | str:
    """Compile an expression, or return its error; empty `return_types` accept any type.

    >>> compile_typed(admission_environment(), "1", (BOOL,))
    'must evaluate to bool but got int'
    """
    try:
        program = environment.compile(expression)
    except CelCompileError as error:
        problem = str(error)
        return problem if problem.startswith("program instantiation") else f"compilation failed: {problem}"
    if return_types and program.type not in return_types:
        type_names = [runtime_text(one) for one in return_types]
        text = type_names[0] if len(type_names) == 1 else f"one of [{' '.join(type_names)}]"
        return f"must evaluate to {text} but got {runtime_text(program.type)}"
    return program


def runtime_text(type_: Type) -> str:
    """Return a type's name as apiserver's own messages print it.

    >>> runtime_text(list_of(TIMESTAMP))
    'list(google.protobuf.Timestamp)'
    """
    if not type_.params:
        return type_.runtime_name
    return f"{type_.name}({', '.join(map(runtime_text, type_.params))})"


@text_cache(4096, longest=4096)
def compile_condition(expression: str, *, params: bool = False) -> Program | str:
    """Compile a match condition, or return its error."""
    return compile_typed(admission_environment(params=params), expression, (BOOL,))


def request_variable(request: JsonObject) -> JsonObject:
    """Return the variable ``request`` from the request of an AdmissionReview."""
    return {key: value for key, value in request.items() if key not in ("uid", "object", "oldObject")}
