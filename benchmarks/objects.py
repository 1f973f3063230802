"""The objects of all workloads, as plain trees; standard library only, because every client's process imports it."""

from __future__ import annotations

from typing import Any

GROUP, VERSION, KIND, PLURAL = "bench.opsdk.dev", "v1", "Widget", "widgets"
WARM_UP = "warm-up"
"""A ConfigMap that each client reads before it is measured, so that connections are open."""
Tree = dict[str, Any]


def widget_definition() -> Tree:
    """Return the CustomResourceDefinition of Widget: an integer in its spec, and a status subresource."""
    integer = {"type": "integer", "format": "int64"}
    properties = {
        "spec": {"type": "object", "properties": {"value": integer, "text": {"type": "string"}}},
        "status": {"type": "object", "properties": {"observed": integer}},
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": "widget"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def name_of(number: int) -> str:
    """Return the name of an object.

    >>> name_of(7)
    'object-00007'
    """
    return f"object-{number:05}"


def widget(namespace: str, number: int, *, value: int = 1) -> Tree:
    """Return a Widget of about half a kilobyte as the server stores it."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": name_of(number), "namespace": namespace, "labels": {"app": f"app-{number % 100}"}},
        "spec": {"value": value, "text": "x" * 100},
    }


def config_map(namespace: str, number: int) -> Tree:
    """Return a ConfigMap of about one kilobyte as the server stores it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name_of(number), "namespace": namespace, "labels": {"app": f"app-{number % 100}"}},
        "data": {"value": str(number), "text": "x" * 500},
    }


def pod(namespace: str, number: int) -> Tree:
    """Return a Pod of about 5 kB as the server stores it."""
    env = [{"name": f"VARIABLE_{n}", "value": f"value-{n}-{number}"} for n in range(24)]
    container = {
        "name": "main",
        "image": "registry.example/team/app:1.2.3",
        "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": f"v{n}", "mountPath": f"/data/{n}"} for n in range(4)],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
    }
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(4)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(number),
            "namespace": namespace,
            "labels": {"app": f"app-{number % 100}", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"note": "n" * 600},
        },
        "spec": {"nodeName": f"node-{number % 200}", "containers": [container], "volumes": volumes},
    }
