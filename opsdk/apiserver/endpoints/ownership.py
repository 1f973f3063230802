"""Who owns which field: managedFields on every write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.fieldmanager.manager import FieldManager
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree
from opsdk.tree.fieldset import FieldSet, field_element


def manager_name(call: Call, asked: str) -> str:
    """The field manager of a write: what the client says, else the program's name from its User-Agent."""
    name = asked or call.http.header("user-agent").partition("/")[0]
    return name[:128] or "unknown"


def stamp(call: Call) -> str:
    """The time of a write."""
    return call.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")


def field_manager(served: Installed) -> FieldManager:
    """The field manager of a resource or subresource."""
    return FieldManager(
        shape=served.model.shape,
        api_version=served.info.kind_api_version,
        subresource=served.info.subresource,
        reset_fields=reset_fields(served),
    )


def reset_fields(served: Installed) -> FieldSet | None:
    """The fields that writes through this resource cannot own: other subresources write them."""
    strategy = getattr(served.storage, "strategy", None)
    names: Sequence[str] = getattr(strategy, "reset_fields", ())
    return _fields_named(tuple(names)) if names else None


@cache
def _fields_named(names: tuple[str, ...]) -> FieldSet:
    """There are but a handful: status, spec, metadata."""
    return FieldSet.of(*((field_element(name),) for name in names))


def record_update(call: Call, served: Installed, live: Tree | None, new: Tree, asked: str) -> Tree:
    """The new object with its managedFields brought up to date."""
    return field_manager(served).update(live, new, manager=manager_name(call, asked), now=stamp(call))
