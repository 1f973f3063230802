"""Optional numbers and truth values that are no pointers in the server's types: there, zero is the same as nothing.

The published schemas do not tell the two apart, so the plain ones stand here; all others keep a zero.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = frozenset(
    {
        "active", "authenticated", "availableReplicas", "chapAuthDiscovery", "chapAuthSession", "clusterScope", "code",
        "count", "currentReplicas", "denied", "deprecated", "deprecatedCount", "exclusiveMaximum", "exclusiveMinimum",
        "failed", "failureThreshold", "fullyLabeledReplicas", "generation", "globalDefault", "healthCheckNodePort",
        "hostIPC", "hostNetwork", "hostPID", "hostPort", "initialDelaySeconds", "insecureSkipTLSVerify",
        "minReadySeconds", "nodePort", "nullable", "number", "numberAvailable", "numberUnavailable",
        "observedGeneration", "paused", "periodSeconds", "preserveUnknownFields", "publishNotReadyAddresses",
        "readOnly", "readyReplicas", "retryAfterSeconds", "signal", "sizeBytes", "sslEnabled", "stdin", "stdinOnce",
        "succeeded", "successThreshold", "tty", "unavailableReplicas", "uniqueItems", "unschedulable",
        "updatedNumberScheduled", "updatedReplicas", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    }
)  # fmt: skip
_POINTERS: Final = frozenset(
    {
        ("HorizontalPodAutoscalerStatus", "observedGeneration"),
        ("VolumeNodeResources", "count"),
        ("AzureDiskVolumeSource", "readOnly"),
        ("CSIVolumeSource", "readOnly"),
    }
)
"""Pointers in spite of their name."""
_PLAIN: Final = frozenset(
    {
        ("DeploymentStatus", "replicas"),
        ("ScaleSpec", "replicas"),
        ("Probe", "timeoutSeconds"),
        ("CustomResourceColumnDefinition", "priority"),
        ("AWSElasticBlockStoreVolumeSource", "partition"),
        ("GCEPersistentDiskVolumeSource", "partition"),
    }
)
"""No pointers in spite of their name."""


def is_plain(struct: str, field: str) -> bool:
    """Whether a zero in this field of a type (``JobStatus``) means nothing.

    >>> is_plain("JobStatus", "active"), is_plain("JobStatus", "ready")
    (True, False)
    """
    return (field in _NAMES and (struct, field) not in _POINTERS) or (struct, field) in _PLAIN
