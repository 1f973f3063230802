"""Admission handlers: typed defaulters and validators, and chains of handlers. They need no server.

A handler takes a request and returns the decision. User functions may be ``async`` or plain; a plain function must not
block, because it runs in the event loop.

Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/admission/defaulter_custom.go, validator_custom.go, multi.go
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, to_dict
from opsdk.errors import AdmissionDeniedError, ApiError, BadRequestError, DecodeError, UsageError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    UserInfo,
    allowed,
    errored,
    patched,
    response_for,
)

__all__ = ["AdmissionContext", "Defaulter", "Handler", "MultiMutatingHandler", "MultiValidatingHandler", "Validator"]

T = TypeVar("T", bound=AnyObject)
T_contra = TypeVar("T_contra", contravariant=True)

Warnings = Sequence[str] | None
"""The result of a validator: warnings for the client, or None."""


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """The context of a defaulter or validator: the request and a logger. ``AdmissionContext()`` suffices for tests.

    >>> ctx = AdmissionContext()
    >>> ctx.warn("spec.size is deprecated: use spec.replicas")
    >>> ctx.warnings()
    ('spec.size is deprecated: use spec.replicas',)

    Attributes:
        request: the whole request.
        logger: for log lines; an `AdmissionWebhook` adds operation, resource, object and user to all lines of a rule.
    """

    request: AdmissionRequest = field(default_factory=AdmissionRequest)
    logger: logging.Logger = logging.getLogger("opsdk.webhook")
    _warnings: list[str] = field(default_factory=list)

    @property
    def user(self) -> UserInfo:
        """The user of the original request."""
        return self.request.user_info

    @property
    def operation(self) -> str:
        """``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``."""
        return self.request.operation

    @property
    def subresource(self) -> str:
        """``status``, ``scale`` and so on; empty for the object itself."""
        return self.request.subresource

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored, so that side effects are forbidden."""
        return self.request.dry_run

    @property
    def options(self) -> JsonObject:
        """CreateOptions, UpdateOptions or DeleteOptions of the original request."""
        return self.request.options or {}

    def warn(self, text: str) -> None:
        """Show a warning to the client, whether the request is allowed or not."""
        self._warnings.append(text)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings so far."""
        return tuple(self._warnings)


class Handler(Protocol):
    """Decides about requests. Raw handlers implement it; `DefaulterHandler` and `ValidatorHandler` do for kinds."""

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        """Return the decision. An exception becomes a response with 500."""
        ...


class Defaulter(Protocol[T_contra]):
    """Sets fields of an object that is created or updated."""

    def default(self, obj: T_contra, ctx: AdmissionContext, /) -> Awaitable[None] | None:
        """Change `obj` in place. Raises `AdmissionDeniedError` to deny the request.

        An attribute with the value of its class's default is not sent, so declare fields that it sets as ``int | None
        = None``.
        """
        ...


class Validator(Protocol[T_contra]):
    """Allows or denies creations, updates and deletions. Each method raises `AdmissionDeniedError` to deny."""

    def validate_create(self, obj: T_contra, ctx: AdmissionContext, /) -> Awaitable[Warnings] | Warnings:
        """Check a new object."""
        ...

    def validate_update(self, old: T_contra, new: T_contra, ctx: AdmissionContext, /) -> Awaitable[Warnings] | Warnings:
        """Check a change."""
        ...

    def validate_delete(self, obj: T_contra, ctx: AdmissionContext, /) -> Awaitable[Warnings] | Warnings:
        """Check a deletion."""
        ...


DefaultFunction = Callable[[T, AdmissionContext], Awaitable[None] | None]
"""`Defaulter.default` as a function."""
ValidateFunction = Callable[[T, AdmissionContext], Awaitable[Warnings] | Warnings]
"""`Validator.validate_create` or `Validator.validate_delete` as a function."""
ValidateUpdateFunction = Callable[[T, T, AdmissionContext], Awaitable[Warnings] | Warnings]
"""`Validator.validate_update` as a function."""


# ------------------------------------------------------------------ typed handlers
class DefaulterHandler(Generic[T]):
    """Runs a defaulter, and returns a JSON patch for the request's object.

    Fields that the class does not know stay. ``DELETE`` and ``CONNECT`` requests are allowed without a call.

    Args:
        kind: the class of the objects, or a `Kind`.
        defaulter: a `Defaulter`, or a function.
    """

    def __init__(self, kind: KindLike[T], defaulter: Defaulter[T] | DefaultFunction[T]) -> None:
        self._kind: Kind[T] = kind_of(kind)
        default: Any = getattr(defaulter, "default", defaulter)
        if not callable(default):
            raise UsageError(f"{defaulter!r} is not a defaulter: it needs `def default(self, obj, ctx)`")
        self._default = default

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation in ("DELETE", "CONNECT"):
            return allowed()
        ctx = AdmissionContext(request)
        try:
            obj = _decode(request.object, self._kind, new=True)
            before = to_dict(obj)
            result = await _call(self._default, obj, ctx)
        except (AdmissionDeniedError, ApiError) as error:
            return response_for(error).with_warnings(*ctx.warnings())
        if result is not None and result is not obj:
            raise UsageError(f"the defaulter returned a {type(result).__name__}: change the object in place instead")
        after = to_dict(obj)
        if deep_equal(before, after):
            return allowed().with_warnings(*ctx.warnings())
        return patched(request.object or {}, after).with_warnings(*ctx.warnings())

    def __repr__(self) -> str:
        return f"<DefaulterHandler of {self._kind.gvk}>"


class ValidatorHandler(Generic[T]):
    """Runs a validator. ``CONNECT`` requests are allowed; other unknown operations get a 400.

    Args:
        kind: the class of the objects, or a `Kind`.
        validator: a `Validator`, or an object with some of its methods; None to give functions.
        create: checks new objects.
        update: checks changes.
        delete: checks deletions.
    """

    def __init__(
        self,
        kind: KindLike[T],
        validator: Validator[T] | object | None = None,
        *,
        create: ValidateFunction[T] | None = None,
        update: ValidateUpdateFunction[T] | None = None,
        delete: ValidateFunction[T] | None = None,
    ) -> None:
        self._kind: Kind[T] = kind_of(kind)
        self._functions: dict[str, Callable[..., Any] | None] = {
            "CREATE": create or getattr(validator, "validate_create", None),
            "UPDATE": update or getattr(validator, "validate_update", None),
            "DELETE": delete or getattr(validator, "validate_delete", None),
        }
        if not any(self._functions.values()):
            raise UsageError(
                f"{validator!r} is not a validator: it needs validate_create, validate_update or validate_delete"
            )

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that are checked."""
        return tuple(operation for operation, function in self._functions.items() if function is not None)

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation == "CONNECT":
            return allowed()
        if request.operation not in self._functions:
            return errored(400, f"unknown operation {request.operation!r}", reason="BadRequest")
        function = self._functions[request.operation]
        if function is None:
            return allowed()
        ctx = AdmissionContext(request)
        trees = {
            "CREATE": (request.object,),
            "UPDATE": (request.old_object, request.object),
            "DELETE": (request.old_object,),
        }
        try:
            objects = [_decode(tree, self._kind, new=tree is request.object) for tree in trees[request.operation]]
            warnings = await _call(function, *objects, ctx)
        except (AdmissionDeniedError, ApiError) as error:
            return response_for(error).with_warnings(*ctx.warnings())
        # A validator that returns False intends a denial, so do not treat it as "no warnings".
        if warnings is not None and not isinstance(warnings, str | list | tuple):
            kind = type(warnings).__name__
            raise UsageError(f"the validator returned a {kind}: return warnings, or raise AdmissionDeniedError to deny")
        more = (warnings,) if isinstance(warnings, str) else warnings or ()
        return allowed().with_warnings(*ctx.warnings(), *more)

    def __repr__(self) -> str:
        return f"<ValidatorHandler of {self._kind.gvk} for {', '.join(self.operations)}>"


def _decode(tree: JsonObject | None, kind: Kind[T], *, new: bool) -> T:
    """Decode an object. A value of a new one that breaks a bound of the class denies the request, with the field."""
    if not tree:
        raise BadRequestError("there is no content to decode")
    try:
        # Decoding is faster than a deep copy; the patch needs the unmodified object of the request.
        return decode(msgspec.json.encode(tree), kind, bounds=new)
    except DecodeError as error:
        from opsdk.webhook.invalid_objects import invalid_object  # noqa: PLC0415 - start-up time: brings the schemas

        # Mutating webhooks run before schema validation, so the client gets this error instead of the schema's.
        refusal = invalid_object(tree, kind, error) if new else None
        raise (refusal or BadRequestError(str(error))) from error


async def _call(function: Callable[..., Any], *arguments: object) -> Any:
    result = function(*arguments)
    return await result if inspect.isawaitable(result) else result


# ------------------------------------------------------------------ several handlers
class MultiMutatingHandler:
    """Runs handlers on the same object and joins their patches. The first denial ends the run; warnings are collected.

    Each handler sees the request's object, as in controller-runtime, so their patches must not touch the same lists.
    """

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        patches: list[JsonObject] = []
        warnings: list[str] = []
        for handler in self._handlers:
            response = await handler.handle(request)
            warnings += response.warnings
            if not response.allowed:
                return _with_all_warnings(response, warnings)
            patches += response.patches
        return AdmissionResponse(allowed=True, patches=tuple(patches), warnings=tuple(warnings))


class MultiValidatingHandler:
    """Runs handlers until one denies the request; warnings are collected."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        warnings: list[str] = []
        for handler in self._handlers:
            response = await handler.handle(request)
            warnings += response.warnings
            if not response.allowed:
                return _with_all_warnings(response, warnings)
        return allowed().with_warnings(*warnings)


def _with_all_warnings(response: AdmissionResponse, warnings: Sequence[str]) -> AdmissionResponse:
    return response.with_warnings(*warnings[: len(warnings) - len(response.warnings)])
