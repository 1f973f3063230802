"""Inspects the signature of a reconciler, and refuses an invalid one with file and line. Pure.

A reconciler takes a request or the object, and may take a `Context`:

=========================================  ================================================================
``async def reconcile(request)``           called for every request, also when the object is gone
``async def reconcile(request, ctx)``      the same, with a context
``async def reconcile(site: Site)``        called with the cached object, unless it is gone or being deleted
``async def reconcile(site: Site, ctx)``   the same, with a context
=========================================  ================================================================

A plain ``def`` has the same forms. It runs in a thread, and its context is a `BlockingContext`.

Upstream: sigs.k8s.io/controller-runtime/pkg/reconcile/reconcile.go (AsReconciler, ObjectReconciler)
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from opsdk.aio.blocking import returns_generator
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, TypedObject, Unstructured
from opsdk.controller.blocking_context import BlockingContext
from opsdk.controller.context import Context
from opsdk.errors import UsageError
from opsdk.event.handlers import is_async
from opsdk.event.request import Request

_OBJECT_TYPES = (TypedObject, Unstructured, PartialObjectMetadata)


class ReconcilerForm(Enum):
    """Type of the first parameter of a reconciler."""

    REQUEST = "request"
    OBJECT = "object"


class ReconcilerDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """The signature of a reconciler.

    Attributes:
        function: the function or bound method.
        form: the type of its first parameter.
        takes_context: it has a second parameter.
        is_async: it runs in the event loop; a plain function runs in a thread.
        request_type: class of its requests.
        place: file and line.
    """

    function: Callable[..., Any]
    form: ReconcilerForm
    takes_context: bool
    is_async: bool
    request_type: type
    place: str


def inspect_reconciler(reconciler: Any, kind: Kind[AnyObject] | None) -> ReconcilerDeclaration:
    """Return the declaration of `reconciler`, a function or an object with ``reconcile``.

    Raises `UsageError` for a class, a generator, and wrong parameters.
    """
    if isinstance(reconciler, type):
        raise UsageError(f"{reconciler.__name__} is a class: pass an instance, {reconciler.__name__}(...)")
    method = getattr(reconciler, "reconcile", None)
    function = method if callable(method) else reconciler
    if not callable(function):
        raise UsageError(f"{reconciler!r} is not a reconciler: it needs `async def reconcile(self, request)`")
    name, place = getattr(function, "__qualname__", repr(function)), place_of(function)
    check_call(function, name)
    parameters = _parameters(function, name, place)
    hints = _annotations(function)
    form, request_type = _reconciler_form(hints.get(parameters[0].name), parameters, kind, name, place)
    if len(parameters) > 1:
        _check_context_type(parameters[1].name, hints.get(parameters[1].name), is_async(function), f"{name} ({place})")
    return ReconcilerDeclaration(
        function=function,
        form=form,
        takes_context=len(parameters) > 1,
        is_async=is_async(function),
        request_type=request_type,
        place=place,
    )


def check_call(function: Any, name: str) -> None:
    """Raise `UsageError` for a generator and for decorators that hide the form. `name` begins the message."""
    where = f"{name} ({place_of(function)})"
    if returns_generator(function):
        raise UsageError(f"{where} is a generator: return a value instead of `yield`")
    if hasattr(function, "blocking_pool"):
        raise UsageError(f"{where} runs in a thread without a decorator: remove @blocking")
    if not is_async(function) and is_async(inspect.unwrap(function)):
        raise UsageError(f"{where} is async, but its decorator is not: declare the wrapper with `async def`")


def check_context(function: Any, name: str) -> None:
    """Raise `UsageError` unless ``function(obj, ctx)`` can be called, and declares the context that it gets."""
    check_call(function, name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in without a signature
        return
    parameters = list(signature.parameters.values())
    try:
        signature.bind(None, None)
    except TypeError:
        raise UsageError(
            f"{name}{signature} ({place_of(function)}) cannot be called: it must take (obj, ctx)"
        ) from None
    if len(parameters) > 1 and (hint := _annotations(function).get(parameters[1].name)) is not None:
        where = f"{name} ({place_of(function)})"
        _check_context_type(parameters[1].name, hint, is_async(function), where)


def _check_context_type(parameter: str, hint: Any, is_async_function: bool, where: str) -> None:
    """Raise `UsageError` for an annotation that is not the context of this form of function."""
    expected, other = (Context, BlockingContext) if is_async_function else (BlockingContext, Context)
    type_name = _type_name(hint).rpartition(".")[2]
    if hint in (None, Any, expected) or type_name == expected.__name__:
        return
    if hint is other or type_name == other.__name__:
        form, remedy = (
            ("async, and gets a Context", "annotate it with Context, or declare the function with a plain `def`")
            if is_async_function
            else (
                "a plain function, which runs in a thread and gets a BlockingContext",
                "annotate it with BlockingContext, or declare the function with `async def`",
            )
        )
        raise UsageError(f"{where} is {form}, but its parameter {parameter!r} is declared as {type_name}: {remedy}")
    raise UsageError(
        f"{where}: its second parameter {parameter!r} gets the {expected.__name__}, "
        f"but is declared as {_type_name(hint)}"
    )


def _parameters(function: Any, name: str, place: str) -> list[inspect.Parameter]:
    """Return the one or two positional parameters that are passed."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())
    passed = [p for p in parameters if p.kind in kinds]
    if not passed and any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return [inspect.Parameter("request", inspect.Parameter.POSITIONAL_ONLY)]  # a wrapper: (*args, **kwargs)
    required = [p for p in passed if p.default is inspect.Parameter.empty]
    required_keywords = [
        p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is inspect.Parameter.empty
    ]
    if not passed or len(required) > 2 or required_keywords:
        raise UsageError(
            f"{name}{inspect.signature(function)} ({place}) cannot be called: a reconciler takes (request), "
            "(request, ctx), (obj) or (obj, ctx)"
        )
    return passed[: max(len(required), 1)]


def _reconciler_form(
    hint: Any, parameters: list[inspect.Parameter], kind: Kind[AnyObject] | None, name: str, place: str
) -> tuple[ReconcilerForm, type]:
    """Return the form and the request type from the annotation of the first parameter."""
    first = parameters[0].name
    if isinstance(hint, str):
        # An annotation that does not resolve here, such as a class of a test function: only its name is known.
        types = {"Request": Request, kind.representation.__name__ if kind is not None else "": kind}
        hint = types.get(hint.rpartition(".")[2], hint)
        hint = hint.representation if isinstance(hint, Kind) else hint
        if isinstance(hint, str) and kind is None:
            return ReconcilerForm.REQUEST, object  # the handlers decide
    if hint is None and len(parameters) > 1 and kind is not None:
        raise UsageError(
            f"{name} ({place}): annotate {first!r} with {kind.representation.__name__} to get the object, "
            "or with Request to get its key"
        )
    if hint is None or hint is Any or hint is Request:
        return ReconcilerForm.REQUEST, Request
    if not isinstance(hint, type):
        raise UsageError(
            f"{name} ({place}): {first!r} is declared as {_type_name(hint)}: "
            "declare it as Request or as the object's class"
        )
    if issubclass(hint, _OBJECT_TYPES):
        if kind is None or not issubclass(kind.representation, hint):
            reconciled = f"reconciles {kind}" if kind is not None else "has no kind: call for_(...)"
            raise UsageError(f"{name} ({place}) takes a {hint.__name__}, but the controller {reconciled}")
        return ReconcilerForm.OBJECT, Request
    if kind is not None:
        raise UsageError(
            f"{name} ({place}) takes a {hint.__name__}, but the controller reconciles {kind.name}: "
            f"declare {first!r} as Request or as {kind.representation.__name__}"
        )
    return ReconcilerForm.REQUEST, hint


def _annotations(function: Any) -> dict[str, Any]:
    """Return the annotations by parameter; as text where they do not resolve."""
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001 - an annotation is an expression: it may raise anything, and its text remains
        return dict(inspect.get_annotations(inspect.unwrap(target)))


def _type_name(hint: Any) -> str:
    # In Python 3.14 the name of Site | None is Union, and in older ones that of Optional[Site] is Optional.
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def place_of(function: Any) -> str:
    """Return file and line of a function, or of the class of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    target = inspect.unwrap(function) if callable(function) else function
    code = getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown place"
