"""PUT."""

from __future__ import annotations

from opsdk.apiserver import problems
from opsdk.apiserver.endpoints import ownership
from opsdk.apiserver.endpoints.admit import Admission, Review, validator
from opsdk.apiserver.endpoints.body import check_kind, decode, read_tree
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.options import check_timeout, write_options
from opsdk.apiserver.endpoints.render import accepted_for, object_response
from opsdk.apiserver.endpoints.verb_create import check_namespace
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree
from opsdk.web.response import Response


async def handle(call: Call, served: Installed, admission: Admission) -> Response:
    """Replace it; 200, or 201 where it was created."""
    accepted = accepted_for(call)
    check_timeout(call.http.query)
    options = write_options(call.http.query, "UpdateOptions")
    parsed = await read_tree(call, served)
    check_kind(parsed.tree, served.info)
    wanted = decode(call, served, parsed.tree, validation=options.validation, duplicates=parsed.duplicates)
    check_name(call, wanted)
    check_namespace(call, served, wanted)
    first: list[Tree] = [served.model.default(wanted)]

    async def transform(current: Tree | None) -> Tree:
        # Whoever writes may change what it gets, so each further try, which is rare, reads the body anew.
        mine = first.pop() if first else again()
        return await finish(
            call, served, admission, current, mine, manager=options.field_manager, dry_run=options.dry_run
        )

    def again() -> Tree:
        obj = served.model.decode(parsed.tree).obj
        check_name(call, obj)
        check_namespace(call, served, obj)
        return served.model.default(obj)

    stored, created = await served.storage.update(
        call.context(dry_run=options.dry_run),
        call.info.name,
        transform,
        validator(admission, call, served, "UPDATE", dry_run=options.dry_run, name=call.info.name),
    )
    return object_response(call, served, stored, accepted, status=201 if created else 200)


def check_name(call: Call, obj: Tree) -> None:
    """The body's name is that of the path; an empty one is filled in."""
    meta = obj.setdefault("metadata", {})
    name = meta.get("name") or call.info.name
    if name != call.info.name:
        raise problems.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )
    meta["name"] = name


async def finish(
    call: Call,
    served: Installed,
    admission: Admission,
    current: Tree | None,
    wanted: Tree,
    *,
    manager: str,
    dry_run: bool,
) -> Tree:
    """From the wanted object of the served version to the one to store: owners of fields, admission."""
    model = served.model
    live = None if current is None else model.from_storage(current)
    obj = ownership.record_update(call, served, live, wanted, manager)
    return await admit_update(call, served, admission, live, obj, manager=manager, dry_run=dry_run)


async def admit_update(
    call: Call, served: Installed, admission: Admission, live: Tree | None, obj: Tree, *, manager: str, dry_run: bool
) -> Tree:
    """Mutating admission, and the stored version of the outcome."""
    review = Review(
        call=call,
        served=served,
        operation="CREATE" if live is None else "UPDATE",
        namespace=call.info.namespace,
        name=call.info.name,
        obj=obj,
        old=live,
        dry_run=dry_run,
    )
    await admission.mutate(review)
    if review.obj is not obj and review.obj is not None:
        obj = ownership.record_update(call, served, live, review.obj, manager)
    return served.model.to_storage(obj)
