"""``ServiceAccount``: set the pod's service account and mount its token.

Upstream: plugin/pkg/admission/serviceaccount/admission.go (v1.36)
"""

from __future__ import annotations

from typing import Final

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.errors import refused
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.plugin import Plugin, writes
from opsdk.apiserver.registry.metadata import generated_name
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject, JsonValue

_DEFAULT: Final = "default"
_MIRROR: Final = "kubernetes.io/config.mirror"
_PREFIX: Final = "kube-api-access-"
_PLACE: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIFETIME: Final = 3607
"""Seconds. The odd value marks tokens whose lifetime the server chose."""


class ServiceAccount(Plugin):
    """Sets the service account of pods; `accounts` is the lister of the service accounts."""

    resources = ("pods",)

    def __init__(self, accounts: ObjectCache) -> None:
        self._accounts = accounts

    async def mutate(self, attributes: Attributes) -> None:
        """Set the default service account and mount its token in new pods, except mirror pods."""
        if not writes(attributes, "pods", "CREATE") or attributes.obj is None or _mirrored(attributes.obj):
            return
        pod: JsonObject = copy_tree(attributes.obj)
        spec: JsonObject = pod["spec"]
        spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or _DEFAULT
        account = self._account(attributes, spec)
        # automountServiceAccountToken of the pod overrides that of the account.
        automount: JsonValue = spec.get("automountServiceAccountToken")
        if (account.get("automountServiceAccountToken") if automount is None else automount) is not False:
            volumes = spec.get("volumes") or []
            there = next((str(v["name"]) for v in volumes if v["name"].startswith(_PREFIX)), "")
            name = there or generated_name(_PREFIX, attributes.call.context().rng)
            needed = False
            for key in ("initContainers", "containers"):
                for container in spec.get(key) or ():
                    mounts = container.get("volumeMounts") or []
                    if all(mount.get("mountPath") != _PLACE for mount in mounts):
                        needed = True
                        container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _PLACE}]
            if needed and not there:
                spec["volumes"] = [*volumes, {"name": name, "projected": _projection()}]
        secrets = account.get("imagePullSecrets")
        if secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = copy_tree(secrets)
        attributes.obj = pod

    async def validate(self, attributes: Attributes) -> None:
        """Require that the account exists; a mirror pod must not have one."""
        if not writes(attributes, "pods", "CREATE") or attributes.obj is None:
            return
        spec = attributes.obj["spec"]
        if not _mirrored(attributes.obj):
            self._account(attributes, spec)
        elif spec.get("serviceAccountName"):
            raise refused(attributes, "a mirror pod may not reference service accounts")
        elif any(_tokens(volume) for volume in spec.get("volumes") or ()):
            raise refused(attributes, "a mirror pod may not use service account token volume projections")

    def _account(self, attributes: Attributes, spec: JsonObject) -> JsonObject:
        name = spec.get("serviceAccountName") or ""
        if not name:
            raise refused(attributes, f"no service account specified for pod {attributes.namespace}/{attributes.name}")
        account = self._accounts.get(name, attributes.namespace)
        if account is None:
            where = f"{attributes.namespace}/{name}"
            raise refused(attributes, f'error looking up service account {where}: serviceaccount "{name}" not found')
        return account


def _mirrored(pod: JsonObject) -> bool:
    return _MIRROR in (pod["metadata"].get("annotations") or {})


def _tokens(volume: JsonObject) -> bool:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any(source.get("serviceAccountToken") is not None for source in sources)


def _projection() -> JsonObject:
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _LIFETIME, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [field]}},
        ],
        "defaultMode": 420,
    }
