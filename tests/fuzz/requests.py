"""Whole requests: bytes become a method, a path, headers and a body, which a server of this process answers."""

from __future__ import annotations

import asyncio
import json
import logging

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.fuzz.targets import POD, YAML

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW")
PATHS = (
    "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/p", "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/configmaps/a", "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/fuzz.example.com/v1/namespaces/default/things", "/apis/fuzz.example.com/v1/namespaces/default/things/t",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/nodes", "/apis", "/openapi/v2",
    "/api/v1/namespaces/default/pods/p/eviction", "/api/v1/namespaces/default/pods/p/log",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/namespaces/default/services",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/resourcequotas", "/api/v1/namespaces/default/limitranges",
    "/apis/apps/v1/namespaces/default/statefulsets", "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "/api/v1/persistentvolumes",
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses", "/api/v1/namespaces/default/serviceaccounts/s/token",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "/apis/storage.k8s.io/v1/csinodes",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests", "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/ephemeralcontainers", "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
)  # fmt: skip
QUERIES = (
    "", "watch=true&timeoutSeconds=1", "labelSelector=a%3Db", "fieldSelector=metadata.name%3Da", "limit=1", "dryRun=All",
    "fieldManager=f&force=true", "fieldValidation=Strict", "resourceVersion=1&resourceVersionMatch=Exact",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&watch=1&timeoutSeconds=1",
    "propagationPolicy=Foreground&gracePeriodSeconds=0", "continue=abc", "timeout=1s",
)  # fmt: skip
TYPES = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
    "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
    "text/plain", "",
)  # fmt: skip
ACCEPTS = (
    "", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
)  # fmt: skip
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.fuzz.example.com"},
    "spec": {
        "group": "fuzz.example.com",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "minimum": 0},
                                    "names": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "port": {"x-kubernetes-int-or-string": True},
                                },
                                "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 1000"}],
                            }
                        },
                    }
                },
            }
        ],
    },
}
THING = (
    b'{"apiVersion":"fuzz.example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"size":3,"names":["a","b"]}}'
)
TEMPLATE = (
    b'{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1m",'
    b'"memory":"1Gi"},"limits":{"cpu":"2"}},"livenessProbe":{"httpGet":{"port":80}},"volumeMounts":[{"name":"v",'
    b'"mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}],"tolerations":[{"key":"k"}],'
    b'"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions"'
    b':[{"key":"a","operator":"In","values":["b"]}]}]}}},"securityContext":{"sysctls":[{"name":"a.b","value":"1"}]}}}'
)
BODIES: dict[int, bytes] = {
    0: b'{"metadata":{"name":"p2"},' + TEMPLATE[33:],
    1: b'{"metadata":{"name":"p"},' + TEMPLATE[33:],
    5: THING,
    7: json.dumps(DEFINITION).encode().replace(b"things", b"others"),
    8: b'{"metadata":{"name":"n"},"spec":{"podCIDR":"10.0.0.0/24","taints":[{"key":"a","effect":"NoSchedule"}]}}',
    11: b'{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":0}}',
    13: b'{"metadata":{"name":"v"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],'
        b'"operations":["CREATE"],"resources":["configmaps"]}]},"validations":[{"expression":"object.data.a == \'b\'",'
        b'"messageExpression":"\'no \' + object.data.a"}],"variables":[{"name":"x","expression":"1"}]}}',
    14: b'{"metadata":{"name":"r"},"rules":[{"apiGroups":["apps"],"resources":["*"],"verbs":["get"]}],"aggregationRule":'
        b'{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}',
    15: b'{"metadata":{"name":"s"},"spec":{"ports":[{"port":80,"nodePort":30000,"targetPort":"x"}],"type":"NodePort",'
        b'"clusterIPs":["10.0.0.9"],"ipFamilies":["IPv4"],"selector":{"a":"b"}}}',
    16: b'{"spec":{"resourceAttributes":{"verb":"get","resource":"pods","labelSelector":{"requirements":[{"key":"a",'
        b'"operator":"In","values":["b"]}]}}}}',
    17: b'{"metadata":{"name":"e"},"involvedObject":{"namespace":"default","name":"p"},"reason":"r","type":"Normal"}',
    18: b'{"metadata":{"name":"q"},"spec":{"hard":{"cpu":"1","pods":"5","count/things.fuzz.example.com":"1"},"scopes":["Terminating"]}}',
    19: b'{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"2"},"default":{"cpu":"1"}}]}}',
    20: b'{"metadata":{"name":"s"},"spec":{"replicas":1,"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":'
        + TEMPLATE + b',"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":'
        b'{"requests":{"storage":"1Gi"}}}}]}}',
    21: b'{"metadata":{"name":"c"},"spec":{"schedule":"*/5 * * * *","timeZone":"Etc/UTC","jobTemplate":{"spec":{"template":'
        + TEMPLATE.replace(b'{"containers', b'{"restartPolicy":"Never","containers') + b'}}}}',
    22: b'{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},"metrics":[{"type":'
        b'"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":5}}}]}}',
    23: b'{"metadata":{"name":"pv"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}}',
    24: b'{"metadata":{"name":"i"},"spec":{"rules":[{"host":"a.b","http":{"paths":[{"path":"/","pathType":"Prefix","backend":'
        b'{"service":{"name":"s","port":{"number":80}}}}]}}],"tls":[{"hosts":["a.b"]}]}}',
    25: b'{"spec":{"audiences":["a"],"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}',
    26: b'{"metadata":{"name":"m"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],'
        b'"operations":["CREATE"],"resources":["configmaps"]}]},"reinvocationPolicy":"Never","mutations":[{"patchType":'
        b'"ApplyConfiguration","applyConfiguration":{"expression":"Object{data: {\'a\': \'b\'}}"}}]}}',
    28: b'{"metadata":{"name":"w"},"webhooks":[{"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],'
        b'"clientConfig":{"url":"https://127.0.0.1:1/x"},"failurePolicy":"Ignore","matchConditions":[{"name":"x","expression":'
        b'"has(object.metadata)"}],"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["leases"]}]}]}',
    30: b'{"metadata":{"name":"c"},"spec":{"request":"LS0tLS1CRUdJTi==","signerName":"a.b/c","usages":["client auth"]}}',
    31: b'{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}',
    32: b'{"metadata":{"name":"p"},"spec":{"ephemeralContainers":[{"name":"x","image":"i","targetContainerName":"c"}]}}',
    33: b'{"metadata":{"name":"e"},"eventTime":"2024-01-01T00:00:00.000000Z","reportingController":"a.b/c","action":"x",'
        b'"reportingInstance":"i","reason":"r","regarding":{"namespace":"default"},"type":"Normal"}',
    34: b'{"metadata":{"name":"f"},"spec":{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":5}}',
    35: b'{"metadata":{"name":"d"},"spec":{"minAvailable":"50%","selector":{"matchLabels":{"a":"b"}}}}',
}  # fmt: skip
"""Something good for each path, by its number."""
SEEDS = [
    *(bytes((m, p, q, t, a)) + body for m in range(6) for p, q, t, a, body in (
        (0, 0, 0, 1, POD), (1, 5, 4, 0, POD), (1, 0, 6, 2, YAML), (5, 0, 0, 4, THING), (6, 7, 4, 5, THING), (4, 0, 5, 1, POD),
        (3, 6, 6, 0, YAML), (7, 0, 0, 0, b"{}"), (6, 0, 3, 1, b'[{"op":"add","path":"/spec/any","value":{"x":[1]}}]'),
    )),
    *(bytes((verb, path, 0, 0, path % 6)) + body for verb in (1, 2, 3) for path, body in BODIES.items()),
]  # fmt: skip


class Bugs(logging.Handler):
    """Collects what the server logs as its own mistakes."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.found.append(self.format(record))


def scope(data: bytes) -> tuple[JsonObject, bytes]:
    """The request that some bytes mean; odd ones put themselves into the path and the query too."""
    head, body = data[:5].ljust(5, b"\0"), data[5:]
    method, path = METHODS[head[0] % len(METHODS)], PATHS[head[1] % len(PATHS)]
    query = QUERIES[head[2] % len(QUERIES)]
    if head[0] >= 128:
        path = f"{path}/{body[:20].decode('latin-1')}"
    if head[2] >= 128:
        query = f"{query}&{body[:40].decode('latin-1')}"
    headers = []
    for name, value in ((b"content-type", TYPES[head[3] % len(TYPES)]), (b"accept", ACCEPTS[head[4] % len(ACCEPTS)])):
        if value:
            headers.append((name, value.encode()))
    raw = query.encode("latin-1")
    return {"type": "http", "method": method, "path": path, "query_string": raw, "headers": headers}, body


async def answer(env: Environment, data: bytes) -> int:
    """The status of the answer; watches are left after a moment, as clients do that go away."""
    what, body = scope(data)
    return await exchange(env, what, body)


async def exchange(env: Environment, what: JsonObject, body: bytes) -> int:
    """The status of the answer to one request of the admin."""
    token = env.config.token or ""
    what["headers"] += [(b"authorization", f"Bearer {token}".encode()), (b"user-agent", b"fuzz/1")]
    status = 0
    sent = False
    gone = asyncio.Event()

    async def receive() -> JsonObject:
        nonlocal sent
        if sent:
            await gone.wait()
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: JsonObject) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        if message["type"] == "http.response.body" and message.get("more_body"):
            gone.set()

    async with asyncio.timeout(20):
        await env.server.app(what, receive, send)
    return status
