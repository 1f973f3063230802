"""Builds the webhooks of one kind.

Upstream: sigs.k8s.io/controller-runtime/pkg/builder/webhook.go
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, TypedObject
from opsdk.apimachinery.plurals import pluralize
from opsdk.errors import UsageError
from opsdk.webhook.configurations import WebhookRegistration, WebhookRule
from opsdk.webhook.conversion import Converter
from opsdk.webhook.handlers import (
    Defaulter,
    DefaulterHandler,
    DefaultFunction,
    ValidateFunction,
    ValidateUpdateFunction,
    Validator,
    ValidatorHandler,
)
from opsdk.webhook.server import WebhookServer
from opsdk.webhook.webhook import DEFAULT_TIMEOUT, AdmissionWebhook

__all__ = ["WebhookBuilder"]

T = TypeVar("T", bound=AnyObject)
U = TypeVar("U", bound=AnyObject)


class WebhookBuilder(Generic[T]):
    """Collects defaulter, validator and converter of a kind, and registers them with a server.

    ::

        WebhookBuilder().for_(Website).with_defaulter(set_image).with_validator(WebsiteRules()).complete(server)

    Paths are ``/mutate-<group>-<version>-<kind>``, ``/validate-<group>-<version>-<kind>`` and ``/convert``.
    """

    def __init__(self) -> None:
        self._kind: KindLike[T] | None = None
        self._defaulter: Defaulter[T] | DefaultFunction[T] | None = None
        self._validator: dict[str, Any] = {}
        self._converter: Converter | None = None
        self._paths: dict[bool, str] = {}
        self._rules = {True: WebhookRule(), False: WebhookRule()}
        self._timeout: float | None = DEFAULT_TIMEOUT
        self._plural = ""
        self._scope = ""

    def for_(self, kind: KindLike[U], *, plural: str = "", scope: str = "") -> WebhookBuilder[U]:
        """Set the kind.

        Args:
            kind: the class of the objects, or a `Kind`.
            plural: the resource; empty for the class's ``plural``, or the kind in lower case plus "s".
            scope: ``Namespaced``, ``Cluster`` or ``*``; empty for the class's ``namespaced``, or ``*``.
        """
        builder: WebhookBuilder[Any] = self
        builder._kind, builder._plural, builder._scope = kind, plural, scope
        return builder

    def with_defaulter(
        self, defaulter: Defaulter[T] | DefaultFunction[T], *, path: str = "", rule: WebhookRule | None = None
    ) -> Self:
        """Set the defaulter: an object or a function. `path` replaces the path, `rule` the webhook's configuration."""
        self._defaulter = defaulter
        self._set(path, rule, mutating=True)
        return self

    def with_validator(
        self,
        validator: Validator[T] | object | None = None,
        *,
        create: ValidateFunction[T] | None = None,
        update: ValidateUpdateFunction[T] | None = None,
        delete: ValidateFunction[T] | None = None,
        path: str = "",
        rule: WebhookRule | None = None,
    ) -> Self:
        """Set the validator: an object, or functions. `path` replaces the path, `rule` the webhook's configuration."""
        self._validator = {"validator": validator, "create": create, "update": update, "delete": delete}
        self._set(path, rule, mutating=False)
        return self

    def _set(self, path: str, rule: WebhookRule | None, *, mutating: bool) -> None:
        self._paths[mutating] = path
        if rule is not None:
            self._rules[mutating] = rule

    def with_converter(self, converter: Converter) -> Self:
        """Set the converter between the versions of the kind."""
        self._converter = converter
        return self

    @property
    def converter(self) -> Converter | None:
        """The converter between the versions of the kind, or None."""
        return self._converter

    def with_timeout(self, seconds: float | None) -> Self:
        """Set how long defaulter and validator may take, see `AdmissionWebhook`."""
        self._timeout = seconds
        return self

    def complete(self, server: WebhookServer) -> None:
        """Register the webhooks with `server`.

        Raises:
            UsageError: there is no kind or no webhook, the converter is of another kind, or a path is taken.
        """
        if self._kind is None:
            raise UsageError("a webhook needs a kind: call for_(Kind) first")
        if self._defaulter is None and not self._validator and self._converter is None:
            raise UsageError("nothing to serve: call with_defaulter, with_validator or with_converter")
        kind = kind_of(self._kind)
        if self._converter is not None and self._converter.group_kind != kind.gvk.group_kind:
            raise UsageError(f"{self._converter!r} is not a converter of {kind.gvk.group_kind}")
        if self._defaulter is not None:
            handler = DefaulterHandler(kind, self._defaulter)
            self._register(server, handler, ("CREATE", "UPDATE"), mutating=True)
        if self._validator:
            validator = ValidatorHandler(kind, **self._validator)
            self._register(server, validator, validator.operations, mutating=False)
        if self._converter is not None:
            server.register_converter(self._converter)
            server.converted_definitions.append(f"{self._resource(kind)}.{kind.gvk.group}")

    def _resource(self, kind: Kind[T]) -> str:
        return self._plural or getattr(kind.representation, "plural", "") or pluralize(kind.gvk.kind.lower())

    def _register(
        self,
        server: WebhookServer,
        handler: DefaulterHandler[T] | ValidatorHandler[T],
        operations: tuple[str, ...],
        *,
        mutating: bool,
    ) -> None:
        """Add a webhook to the server, with its registration for the configurations."""
        assert self._kind is not None  # checked by `complete`
        kind = kind_of(self._kind)
        gvk, rule = kind.gvk, self._rules[mutating]
        verb = "mutate" if mutating else "validate"
        path = self._paths[mutating] or webhook_path(gvk, mutating=mutating)
        server.register(path, AdmissionWebhook(handler, timeout=self._timeout))
        plural = self._resource(kind)
        representation: type[Any] = kind.representation
        scope = "*"
        if issubclass(representation, TypedObject):
            scope = "Namespaced" if representation.namespaced else "Cluster"
        server.registrations.append(
            WebhookRegistration(
                name=rule.name or f"{verb}-{gvk.version}.{plural}.{gvk.group or 'core.k8s.io'}",
                path=path,
                mutating=mutating,
                group=gvk.group,
                version=gvk.version,
                resource=plural,
                scope=self._scope or scope,
                operations=rule.operations or operations,
                rule=rule,
            )
        )

    def __repr__(self) -> str:
        return f"<WebhookBuilder for {self._kind!r}>"


def webhook_path(gvk: GroupVersionKind, *, mutating: bool) -> str:
    """Return the path of a kind's webhook.

    >>> webhook_path(GroupVersionKind("demo.opsdk.dev", "v1", "Website"), mutating=True)
    '/mutate-demo-opsdk-dev-v1-website'
    """
    verb = "mutate" if mutating else "validate"
    return f"/{verb}-{gvk.group.replace('.', '-')}-{gvk.version}-{gvk.kind.lower()}"
