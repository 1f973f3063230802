"""Issues TLS certificates for annotated Services, and sets the ``caBundle`` of objects that call these Services.

Upstream: github.com/rancher/wrangler/pkg/needacert
Deviates: certificates are signed by a CA, so that it can be rotated without an outage; wrangler's are self-signed. A
Secret that another program wrote is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from opsdk.api.core.v1 import Secret, Service
from opsdk.apimachinery.object import AnyObject, key_of, to_tree
from opsdk.client.patch import MergeFrom
from opsdk.controller.context import Context
from opsdk.event.request import Request
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.handlers import NamedHandler
from opsdk.lifecycle.related import relate
from opsdk.recipes.owner_references import has_owner_reference, set_owner_reference
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.manager import CertificateManager
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.registered.comparison import RegisteredObject

SECRET_ANNOTATION: Final = "need-a-cert.cattle.io/secret-name"  # noqa: S105 - a name, not a password
"""Of a Service: the name of the Secret, in the namespace of the Service."""
DNS_ANNOTATION: Final = "need-a-cert.cattle.io/dns-name"
"""Of a Service: more DNS names and IP addresses, separated by commas."""


class NeedACertHandler:
    """A handler of Services: writes the Secret, renews it, and sets the ``caBundle`` of objects that call the Service.

    Args:
        controller: of Services; it is called again when a renewal may be due.
        interval: seconds between two checks of a Service without changes. A renewal begins 30 days before the end.
    """

    def __init__(self, controller: GenericController[Service], *, interval: float = 3600.0) -> None:
        self._controller = controller
        self._interval = interval
        self._managers: dict[Request, CertificateManager] = {}

    async def __call__(self, request: Request, service: Service | None, ctx: Context) -> None:
        """Bring the Secret and each ``caBundle`` up to date. Raises as `CertificateManager.check`."""
        if service is None or service.metadata.deletion_timestamp is not None:
            self._managers.pop(request, None)
            return
        options = certificate_options(service)
        if options is None:
            self._managers.pop(request, None)
            return
        manager = self._managers.get(request)
        if manager is None or manager.options != options:
            manager = CertificateManager(ctx.cluster.uncached, options)
            self._managers[request] = manager
        manager.registered.declare(await self._callers(request, ctx))
        await manager.check()
        await self._set_owner_reference(service, options.secret, ctx)
        assert manager.bundle is not None  # `check` sets it
        rotating = manager.bundle.next_authority is not None or bool(manager.bundle.previous)
        delay = options.overlap if rotating else self._interval
        self._controller.enqueue_after(request.namespace, request.name, delay)

    async def _callers(self, request: Request, ctx: Context) -> list[RegisteredObject]:
        """Return the objects that call the Service."""
        return [
            RegisteredObject(target=InjectionTarget(kind, obj.metadata.name))
            for kind in InjectionKind
            for obj in await ctx.client.list(kind.kind)
            if request in called_services(obj)
        ]

    async def _set_owner_reference(self, service: Service, secret_name: str, ctx: Context) -> None:
        """Set the owner reference, so that the garbage collector deletes the Secret with the Service."""
        secret = await ctx.client.get_or_none(Secret, secret_name, namespace=service.metadata.namespace)
        if secret is None or has_owner_reference(service, secret):
            return
        before = await ctx.client.get(Secret, key_of(secret))
        set_owner_reference(service, secret)
        await ctx.client.patch(secret, MergeFrom(before))

    def __repr__(self) -> str:
        return f"<NeedACertHandler: {len(self._managers)} Services>"


def add_need_a_cert(controller: GenericController[Service], *, interval: float = 3600.0) -> NamedHandler:
    """Issue certificates for the Services with the annotation ``need-a-cert.cattle.io/secret-name``.

    The ``caBundle`` of webhook configurations, APIServices and CustomResourceDefinitions that call such a Service is
    kept up to date. The program needs the permissions of ``SelfSigned``: see ``docs/webhooks.md``. It needs the extra
    ``opsdk[tls]``. ::

        add_need_a_cert(SharedControllerFactory.of(operator).for_kind(Service))

    Args:
        controller: of Services.
        interval: see `NeedACertHandler`.
    """
    relate(Secret, controller)
    for kind in InjectionKind:
        relate(kind.kind, controller, called_services)
    return controller.add_handler("need-a-cert", NeedACertHandler(controller, interval=interval))


def certificate_options(service: Service) -> SelfSigned | None:
    """Return the certificate options in the annotations of a Service; None without the annotation."""
    meta = service.metadata
    secret = meta.annotations.get(SECRET_ANNOTATION, "")
    if not secret:
        return None
    names = [name.strip() for name in meta.annotations.get(DNS_ANNOTATION, "").split(",")]
    return SelfSigned(
        service=meta.name, namespace=meta.namespace, secret_name=secret, dns_names=tuple(filter(None, names))
    )


def called_services(obj: AnyObject) -> list[Request]:
    """Return the Services that a webhook configuration, a CustomResourceDefinition or an APIService calls."""
    return [
        Request(str(service.get("namespace") or ""), str(service["name"]))
        for service in _references(to_tree(obj))
        if service.get("name")
    ]


def _references(tree: JsonObject) -> Iterable[JsonObject]:
    spec: JsonObject = tree.get("spec") or {}
    configs: list[Any] = [hook.get("clientConfig") for hook in tree.get("webhooks") or []]
    configs += [((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig"), spec]
    return (config["service"] for config in configs if config and isinstance(config.get("service"), dict))
