"""Create the ``default`` ServiceAccount and the root CA ConfigMap in every namespace.

Upstream: pkg/controller/serviceaccount, pkg/controller/certificates/rootcacertpublisher (v1.36)
"""

from __future__ import annotations

import base64
from contextlib import suppress

from envtest.controllers.controller import ObjectController, Sign
from envtest.controllers.objects import deleting
from envtest.controllers.writes import (
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    CreateWrite,
    DeleteWrite,
    UpdateWrite,
    Write,
)
from opsdk.apiserver.auth.service_accounts import kept_claims
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import AlreadyExistsError
from opsdk.structured_merge.value import JsonObject

ACCOUNT = "default"
_FOR_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret type, not a secret
_ANNOTATION = "kubernetes.io/service-account."
TRUST = "kube-root-ca.crt"


# ------------------------------------------------------------------ core
def missing(namespace: str, account: JsonObject | None, trust: JsonObject | None, certificate: str) -> list[Write]:
    """Return the writes that create or repair the default account and the CA ConfigMap of a namespace."""
    writes: list[Write] = []
    if account is None:
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": ACCOUNT, "namespace": namespace}}
        writes.append(CreateWrite(SERVICE_ACCOUNTS, account))
    data = {"ca.crt": certificate}
    if trust is None:
        text = "Contains a CA bundle that can be used to verify the kube-apiserver."
        meta = {"name": TRUST, "namespace": namespace, "annotations": {"kubernetes.io/description": text}}
        config_map = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data}
        writes.append(CreateWrite(CONFIG_MAPS, config_map))
    elif trust.get("data") != data:
        writes.append(UpdateWrite(CONFIG_MAPS, {**trust, "data": data}))
    return writes


def kept_token(
    secret: JsonObject, account: JsonObject | None, sign: Sign, certificate: str
) -> UpdateWrite | DeleteWrite | None:
    """Return the write that fills a token secret, or deletes it with its account."""
    meta = secret["metadata"]
    uid = (meta.get("annotations") or {}).get(f"{_ANNOTATION}uid", "")
    if account is None or (uid and uid != account["metadata"]["uid"]):
        return DeleteWrite(SECRETS, secret)
    data: JsonObject = dict(secret.get("data") or {})
    if data.get("token"):
        return None
    content = {"ca.crt": certificate, "namespace": meta["namespace"], "token": sign(kept_claims(account, secret))}
    data.update({key: base64.b64encode(text.encode()).decode() for key, text in content.items()})
    notes = {**meta["annotations"], f"{_ANNOTATION}uid": account["metadata"]["uid"]}
    return UpdateWrite(SECRETS, {**secret, "metadata": {**meta, "annotations": notes}, "data": data})


# ------------------------------------------------------------------ shell
class ServiceAccountController(ObjectController):
    """``serviceaccount``; `certificate` returns the CA bundle that verifies serving certificates."""

    name = "serviceaccount"
    resource = NAMESPACES

    def add_event_handlers(self) -> None:
        """Watch namespaces, the default accounts and the CA ConfigMaps."""
        super().add_event_handlers()
        self.informers.add_event_handler(SERVICE_ACCOUNTS, self._on_default_object_changed)
        self.informers.add_event_handler(CONFIG_MAPS, self._on_default_object_changed)

    def _on_default_object_changed(self, change: StorageChange) -> None:
        meta = change.latest["metadata"]
        if meta["name"] in (ACCOUNT, TRUST) and change.previous is not None:
            self.queue.add(NAMESPACES.key("", meta["namespace"]))

    async def create_initial_objects(self) -> None:
        """Create the default accounts of the existing namespaces."""
        for key in list(self.informers.all(NAMESPACES)):
            await self.reconcile(key)

    async def sync(self, obj: JsonObject) -> float | None:
        if deleting(obj):
            return None
        name = obj["metadata"]["name"]
        account = self.informers.get(SERVICE_ACCOUNTS.key(name, ACCOUNT))
        trust = self.informers.get(CONFIG_MAPS.key(name, TRUST))
        for write in missing(name, account, trust, self.context.certificate()):
            with suppress(AlreadyExistsError):
                await self.context.api.write(write)
        return None


class TokenController(ObjectController):
    """``serviceaccount-token``: fills secrets of the type service account token; `sign` signs claims."""

    name = "serviceaccount-token"
    resource = SECRETS

    def add_event_handlers(self) -> None:
        """Watch secrets; a changed account syncs all token secrets of its namespace."""
        super().add_event_handlers()
        self.informers.add_event_handler(SERVICE_ACCOUNTS, self._account)

    def _account(self, change: StorageChange) -> None:
        for secret in self.informers.in_namespace(SECRETS, change.latest["metadata"]["namespace"]):
            self.queue.add(SECRETS.key(secret["metadata"]["namespace"], secret["metadata"]["name"]))

    async def sync(self, obj: JsonObject) -> float | None:
        if deleting(obj) or obj.get("type") != _FOR_TOKEN:
            return None
        meta = obj["metadata"]
        name = (meta.get("annotations") or {}).get(f"{_ANNOTATION}name", "")
        account = self.informers.get(SERVICE_ACCOUNTS.key(meta["namespace"], name))
        token = kept_token(obj, account, self.context.sign, self.context.certificate())
        if token is not None:
            await self.context.api.write(token)
        return None
