"""Pods for the measurements of steve."""

from __future__ import annotations

import random

import msgspec


def pod(number: int, revision: int, chance: random.Random) -> bytes:
    """Return a Pod of about 2 kB."""
    ports = [{"name": f"p{port}", "containerPort": 8000 + port, "protocol": "TCP"} for port in range(8)]
    environment = [{"name": f"VARIABLE_{index}", "value": f"value {index} of the pod"} for index in range(12)]
    container = {"name": "main", "image": f"registry.example.org/app:{number % 7}", "ports": ports, "env": environment}
    day = f"{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    ready = chance.choice(["True", "True", "True", "False"])
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{number:05}",
                "namespace": f"ns-{number % 50}",
                "uid": f"00000000-0000-0000-0000-{number:012}",
                "resourceVersion": str(revision),
                "creationTimestamp": f"2026-{day}T10:{number % 60:02}:00Z",
                "labels": {"app": f"app-{number % 100}", "tier": "web"},
            },
            "spec": {"nodeName": f"node-{chance.randint(0, 199)}", "containers": [container]},
            "status": {
                "phase": chance.choice(["Running", "Running", "Running", "Pending", "Failed"]),
                "podIP": f"10.{number % 250}.{chance.randint(0, 250)}.{chance.randint(1, 250)}",
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
    )
