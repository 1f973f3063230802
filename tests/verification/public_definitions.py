"""Definitions in the form of well-known operators: the fields that their users set, with their restrictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsdk.structured_merge.value import JsonObject

STRING = {"type": "string"}
_DIGITS = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_DIGITS}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DIGITS}))?$",
    "x-kubernetes-int-or-string": True,
}
RESOURCES = {
    "type": "object",
    "properties": {kind: {"type": "object", "additionalProperties": QUANTITY} for kind in ("limits", "requests")},
}
TOLERATIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("key", "operator", "value", "effect"), STRING),
            "tolerationSeconds": {"type": "integer", "format": "int64"},
        },
    },
}
TERMS = {
    "type": "object",
    "properties": {
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {"key": STRING, "operator": STRING, "values": {"type": "array", "items": STRING}},
            },
        }
    },
    "x-kubernetes-map-type": "atomic",
}
AFFINITY = {
    "type": "object",
    "properties": {
        "nodeAffinity": {
            "type": "object",
            "properties": {
                "preferredDuringSchedulingIgnoredDuringExecution": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["preference", "weight"],
                        "properties": {"preference": TERMS, "weight": {"type": "integer", "format": "int32"}},
                    },
                },
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "type": "object",
                    "required": ["nodeSelectorTerms"],
                    "properties": {"nodeSelectorTerms": {"type": "array", "items": TERMS}},
                },
            },
        }
    },
}


def definition(kind: str, spec: Mapping[str, Any], *, scale: str = "", namespaced: bool = True) -> JsonObject:
    """Return a definition of one version whose objects have a spec with this schema and any status."""
    singular = kind.lower()
    version: JsonObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": STRING,
                    "kind": STRING,
                    "metadata": {"type": "object"},
                    "spec": {"type": "object", **spec},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
    if scale:
        version["subresources"]["scale"] = {"specReplicasPath": scale, "statusReplicasPath": ".status.replicas"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.public.example.com"},
        "spec": {
            "group": "public.example.com",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": f"{singular}s", "singular": singular},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


MESSAGE_BROKER = definition(
    "Broker",
    {
        "properties": {
            "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0},
            "image": STRING,
            "imagePullSecrets": {"type": "array", "items": {"type": "object", "properties": {"name": STRING}}},
            "service": {
                "type": "object",
                "default": {"type": "ClusterIP"},
                "properties": {
                    "type": {
                        "type": "string",
                        "default": "ClusterIP",
                        "enum": ["ClusterIP", "LoadBalancer", "NodePort"],
                    },
                    "annotations": {"type": "object", "additionalProperties": STRING},
                },
            },
            "persistence": {
                "type": "object",
                "default": {"storage": "10Gi"},
                "properties": {"storageClassName": STRING, "storage": {**QUANTITY, "default": "10Gi"}},
            },
            "resources": RESOURCES,
            "affinity": AFFINITY,
            "tolerations": TOLERATIONS,
            "configuration": {
                "type": "object",
                "properties": {
                    "plugins": {
                        "type": "array",
                        "maxItems": 100,
                        "items": {"type": "string", "pattern": r"^\w+$", "maxLength": 100},
                    },
                    "additional": {"type": "string", "maxLength": 2000},
                },
            },
            "tls": {
                "type": "object",
                "properties": {"secretName": STRING, "disableNonTLSListeners": {"type": "boolean"}},
            },
            "terminationGracePeriodSeconds": {"type": "integer", "format": "int64", "minimum": 0, "default": 604800},
        }
    },
    scale=".spec.replicas",
)
CERTIFICATE = definition(
    "Certificate",
    {
        "required": ["issuerRef", "secretName"],
        "properties": {
            "commonName": {"type": "string", "maxLength": 64},
            "dnsNames": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            "duration": {"type": "string", "format": "duration"},
            "renewBefore": {"type": "string", "format": "duration"},
            "renewBeforePercentage": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 99},
            "isCA": {"type": "boolean"},
            "issuerRef": {
                "type": "object",
                "required": ["name"],
                "properties": {"group": STRING, "kind": STRING, "name": STRING},
            },
            "privateKey": {
                "type": "object",
                "properties": {
                    "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
                    "rotationPolicy": {"type": "string", "enum": ["Never", "Always"], "default": "Always"},
                    "size": {"type": "integer", "enum": [256, 384, 2048, 4096]},
                },
            },
            "secretName": {"type": "string", "minLength": 1},
            "secretTemplate": {
                "type": "object",
                "properties": {
                    name: {"type": "object", "additionalProperties": STRING} for name in ("annotations", "labels")
                },
            },
            "usages": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "string", "enum": ["signing", "digital signature", "key encipherment"]},
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "!(has(self.renewBefore) && has(self.renewBeforePercentage))",
                "message": "renewBefore and renewBeforePercentage exclude each other",
            }
        ],
    },
)
AUTOSCALER = definition(
    "Autoscaler",
    {
        "required": ["maxReplicas", "targetRef", "triggers"],
        "properties": {
            "minReplicas": {"type": "integer", "format": "int32", "minimum": 1, "default": 1},
            "maxReplicas": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 8},
            "pollingInterval": {"type": "integer", "minimum": 1},
            "targetRef": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "minLength": 1}, "kind": STRING},
            },
            "triggers": {
                "type": "array",
                "minItems": 1,
                "maxItems": 10,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
                        "cpu": {
                            "type": "object",
                            "required": ["percent"],
                            "properties": {"percent": {"type": "integer"}},
                        },
                        "cron": {
                            "type": "object",
                            "required": ["schedule"],
                            "properties": {"schedule": STRING, "timeZone": STRING},
                        },
                    },
                    "oneOf": [{"required": ["cpu"]}, {"required": ["cron"]}],
                },
            },
        },
        "x-kubernetes-validations": [
            {"rule": "self.minReplicas <= self.maxReplicas", "message": "minReplicas is above maxReplicas"}
        ],
    },
)
ROUTE = definition(
    "Route",
    {
        "properties": {
            "hostnames": {
                "type": "array",
                "maxItems": 16,
                "items": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 253,
                    "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                },
            },
            "rules": {
                "type": "array",
                "maxItems": 16,
                "items": {
                    "type": "object",
                    "properties": {
                        "path": {
                            "type": "object",
                            "default": {"type": "PathPrefix", "value": "/"},
                            "properties": {
                                "type": {"type": "string", "enum": ["Exact", "PathPrefix"], "default": "PathPrefix"},
                                "value": {"type": "string", "maxLength": 1024, "default": "/"},
                            },
                            "x-kubernetes-validations": [
                                {"rule": "self.value.startsWith('/')", "message": "must begin with /"}
                            ],
                        },
                        "backends": {
                            "type": "array",
                            "maxItems": 16,
                            "items": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string", "minLength": 1, "maxLength": 253},
                                    "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                                    "weight": {
                                        "type": "integer",
                                        "format": "int32",
                                        "minimum": 0,
                                        "maximum": 1000000,
                                        "default": 1,
                                    },
                                },
                            },
                        },
                        "timeout": {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"},
                    },
                },
            },
            "className": {
                "type": "string",
                "maxLength": 63,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
            },
        }
    },
)
BACKUP = definition(
    "Backup",
    {
        "required": ["schedule", "storage"],
        "properties": {
            "schedule": {"type": "string", "minLength": 9},
            "keep": {"type": "integer", "minimum": 1, "multipleOf": 1, "maximum": 365},
            "suspend": {"type": "boolean", "nullable": True},
            "compression": {"type": "number", "minimum": 0, "maximum": 1, "exclusiveMinimum": True},
            "storage": {
                "type": "object",
                "properties": {
                    "bucket": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string", "minLength": 3}, "region": STRING},
                    },
                    "claim": {
                        "type": "object",
                        "required": ["accessModes", "resources"],
                        "properties": {
                            "accessModes": {"type": "array", "items": STRING},
                            "resources": RESOURCES,
                            "storageClassName": STRING,
                        },
                    },
                },
                "oneOf": [{"required": ["bucket"]}, {"required": ["claim"]}],
            },
            "template": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
            },
            "parameters": {"type": "object", "additionalProperties": STRING, "minProperties": 1, "maxProperties": 5},
            "maxUnavailable": {"x-kubernetes-int-or-string": True},
        },
    },
    namespaced=False,
)
PUBLIC = (MESSAGE_BROKER, CERTIFICATE, AUTOSCALER, ROUTE, BACKUP)
