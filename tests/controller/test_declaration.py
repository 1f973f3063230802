"""Reconcilers that cannot be called are refused where they are declared, with file and line."""
# ruff: noqa: D103, ANN001 - the functions are examples of declarations: their names say what they are

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from typing import Any, Optional

import pytest
from client_fakes import Site

from opsdk import Context, Operator, Request, UsageError
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import kind_of
from opsdk.controller.declaration import ReconcilerForm, inspect_reconciler

SITE = kind_of(Site)
HERE = re.escape(__file__)


@dataclass(frozen=True)
class Shard:
    """A request that is not an object."""

    number: int


async def of_request(request: Request) -> None: ...
async def of_request_and_context(request: Request, ctx: Context) -> None: ...
async def of_object(site: Site) -> None: ...
async def of_object_and_context(site: Site, ctx: Context) -> None: ...
async def of_anything(request) -> None: ...  # type: ignore[no-untyped-def]
async def of_shard(shard: Shard, ctx: Context) -> None: ...
async def with_default(site: Site, ctx: Context, limit: int = 3) -> None: ...


class Reconciler:
    """A reconciler with state."""

    async def reconcile(self, site: Site, ctx: Context) -> None: ...


class CallableReconciler:
    """An object with an async ``__call__``."""

    async def __call__(self, site: Site) -> None: ...


@pytest.mark.parametrize(
    ("reconciler", "form", "takes_context"),
    [
        (of_request, ReconcilerForm.REQUEST, False),
        (of_request_and_context, ReconcilerForm.REQUEST, True),
        (of_object, ReconcilerForm.OBJECT, False),
        (of_object_and_context, ReconcilerForm.OBJECT, True),
        (of_anything, ReconcilerForm.REQUEST, False),
        (with_default, ReconcilerForm.OBJECT, True),
        (Reconciler(), ReconcilerForm.OBJECT, True),
        (CallableReconciler(), ReconcilerForm.OBJECT, False),
        (functools.partial(of_object_and_context), ReconcilerForm.OBJECT, True),
    ],
)
def test_the_annotation_decides_which_argument_is_passed(
    reconciler: Any, form: ReconcilerForm, takes_context: bool
) -> None:
    """The first parameter's class selects request or object; a second parameter gets the context."""
    declaration = inspect_reconciler(reconciler, SITE)
    assert (declaration.form, declaration.takes_context, declaration.request_type) == (form, takes_context, Request)
    assert __file__ in declaration.place


def test_a_local_class_is_found_by_its_name() -> None:
    """An annotation that does not resolve outside its function is compared by name."""

    class Local(Site):
        pass

    async def reconcile(obj: Local) -> None: ...

    assert inspect_reconciler(reconcile, kind_of(Local)).form is ReconcilerForm.OBJECT


def test_a_request_of_another_type_needs_no_kind() -> None:
    """A class that is not a kind is the type of the controller's requests."""
    assert inspect_reconciler(of_shard, None).request_type is Shard
    with pytest.raises(UsageError, match="declare 'shard' as Request or as Site"):
        inspect_reconciler(of_shard, SITE)


async def nothing() -> None: ...
async def three(site: Site, ctx: Context, more: int) -> None: ...
async def keyword(site: Site, *, more: int) -> None: ...
async def other_kind(config_map: ConfigMap, ctx: Context) -> None: ...
async def unannotated(site, ctx) -> None: ...  # type: ignore[no-untyped-def]
async def text(site: str) -> None: ...
async def maybe(site: Site | None) -> None: ...
async def optional(site: Optional[Site]) -> None: ...  # noqa: UP045 - the older form
async def several(sites: list[Site]) -> None: ...
async def wrong_context(site: Site, ctx: Operator) -> None: ...


@pytest.mark.parametrize(
    ("reconciler", "message"),
    [
        (nothing, r"nothing\(\) .*cannot be called: a reconciler takes"),
        (three, "cannot be called"),
        (keyword, "cannot be called"),
        (other_kind, "takes a ConfigMap, but the controller reconciles"),
        (unannotated, "annotate 'site' with Site"),
        (text, "takes a str, but the controller reconciles Site"),
        (maybe, r"declared as .*Site \| None: declare it as Request or as the object's class"),
        (optional, r"declared as .*Site.*: declare it as Request or as the object's class"),
        (several, r"list\[.*Site\]"),
        (wrong_context, "its second parameter 'ctx' gets the Context, but is declared as Operator"),
    ],
)
def test_an_invalid_reconciler_is_refused_with_file_and_line(reconciler: Any, message: str) -> None:
    """The decorator raises, and the message has name, file and line."""
    line = inspect.getsourcelines(reconciler)[1]
    with pytest.raises(UsageError, match=message) as raised:
        Operator("x").reconciler(Site)(reconciler)
    assert re.search(rf"{HERE}:{line}\b", str(raised.value))


def test_classes_are_inspected_before_they_are_created() -> None:
    """A class with a wrong or missing reconcile method is refused at its decorator."""

    class Wrong:
        async def reconcile(self) -> None: ...

    class Empty:
        pass

    operator = Operator("x")
    with pytest.raises(UsageError, match="cannot be called"):
        operator.reconciler(Site)(Wrong)
    with pytest.raises(UsageError, match="Empty is not a reconciler"):
        operator.reconciler(Site)(Empty)
    assert operator.reconciler(Site)(Reconciler) is Reconciler


def test_a_controller_without_kind_needs_a_name() -> None:
    """A controller without kind needs a name."""
    with pytest.raises(UsageError, match="needs a name"):
        Operator("x").reconciler()
