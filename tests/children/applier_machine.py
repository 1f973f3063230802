"""An applier in an operator beside a server, for an exhaustive search.

One owner, a Site, wants one child, a ConfigMap, or none. The operator reads from a cache that may be old. A pass is a
coroutine, which runs until it sends a request. The server has the real field manager.

Laws:

1. The child of a newer owner with the same name, or of another owner, is never taken or deleted.
2. At rest the child is as the owner wants it, and a further pass writes nothing.
3. At rest nothing is remembered of a child that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator, Hashable
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import msgspec
from client_fakes import Site

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import ObjectList, assign
from opsdk.children.applier import Applier
from opsdk.children.applier_memory import ApplierMemory
from opsdk.children.resolver import TypeResolver
from opsdk.client.client import Client
from opsdk.client.operations import Apply, Delete, Get, List
from opsdk.client.scheme import default_scheme
from opsdk.errors import ConnectionLostError, NotFoundError, OpsdkError
from tests.children.child_server import KEY, NONE, STRANGER, ChildServer, Owner, owners_of, uid_of

_NUMBER = re.compile(r"\b9\d{5}\b")
_PASSES_TO_REST = 6
_TYPES = TypeResolver(default_scheme())
"""The types that all appliers of a search share."""


class ApplierBounds(NamedTuple):
    """What may happen in a search.

    Attributes:
        changes: how often users change, delete or create the owner.
        edits: how often others change, delete or create the child.
        faults: how often a response is lost, or another replica takes over.
        old_standby: the cache of the other replica may be older.
    """

    changes: int = 2
    edits: int = 0
    faults: int = 0
    old_standby: bool = False


class Request:
    """An operation that waits for its response."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation

    def __await__(self) -> Generator[Any, Any, Any]:
        """Suspend the pass."""
        return (yield self.operation)


class Executor:
    """The client of the operator. Cached reads are answered at once."""

    def __init__(self, machine: ApplierMachine) -> None:
        self.scheme = default_scheme()
        self.machine = machine

    async def execute(self, operation: Any) -> Any:
        """Read from the cache, or send a request."""
        if isinstance(operation, List):
            return self._list(operation)
        if isinstance(operation, Get) and not operation.options.uncached:
            data = self.machine.read(operation.kind.gvk.kind)
        else:
            data = await Request(operation)
        if isinstance(operation, Apply):
            return assign(operation.obj, decode(data, kind_of_target(operation.obj)))
        if isinstance(operation, Delete):
            return None
        if data is None:
            raise NotFoundError("not found")
        return decode(data, operation.kind)

    def _list(self, operation: List) -> ObjectList[Any]:
        data = self.machine.read("ConfigMap")
        if data is None or KEY in operation.options.exclude:
            return ObjectList([])
        owners = [owner["uid"] for owner in owners_of(msgspec.json.decode(data))]
        return ObjectList([decode(data, operation.kind)] if operation.options.owner_uid in owners else [])

    def observe_removals(self, kind: Any, observer: Callable[..., None]) -> bool:
        """Call the machine's applier when the child leaves the cache."""
        return True


class LabelledApplier(Applier):
    """An applier that knows what the digests of its memory stand for: their bytes depend on uids."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, field_owner="operator")
        self._types = _TYPES
        self.labels: dict[bytes, str] = {b"": ""}

    def _declare(self, desired: Any, owner: Any, source: bytes) -> Any:
        declared = super()._declare(desired, owner, source)
        label = f"{desired.data['color']} of {owner.metadata.uid}"
        self.labels[declared.digest] = label
        self.labels[source] = label
        return declared


class ApplierMachine(ChildServer):
    """A server with an owner and a child, and an operator with a cache of both."""

    def __init__(self, bounds: ApplierBounds) -> None:
        super().__init__()
        self.bounds = bounds
        self.changes, self.edits, self.faults = bounds.changes, bounds.edits, bounds.faults
        self.cached_owner: Owner | None = None
        self.cached_child: bytes | None = None
        self.standby: tuple[Owner | None, bytes | None] = (None, None)
        """The cache of the other replica, if it may be older."""
        self.own_write: tuple[bytes | None] | None = None
        """The result of an own write, which the cache shows before the watch does."""
        self.is_unknown = False
        """The response to a write was lost: the next read of the child asks the server."""
        self._start_operator()

    def _start_operator(self) -> None:
        executor: Any = Executor(self)
        self.client = Client(executor)
        self.applier = LabelledApplier(self.client)
        self.running: Coroutine[Any, Any, None] | None = None
        self.request: Any = None
        self.pass_owner = 0
        self.memory = self.applier.memory
        """What the applier remembered before the pass."""
        self.log: tuple[tuple[str, Any], ...] = ()
        """What the pass has read and received."""
        self.repeated: list[tuple[str, Any]] = []

    def copy(self) -> ApplierMachine:
        """Return a machine in the same state."""
        machine = copy(self)
        machine.start_again()
        return machine

    def start_again(self) -> None:
        """Start the operator with the same memory. Its pass runs again until the same request."""
        before, running, memory, log = self.applier, self.running, self.memory, self.log
        self._start_operator()
        self.applier.labels = dict(before.labels)
        self.applier.memory = copy_of(before.memory if running is None else memory)
        if running is None:
            return
        self.repeated = list(log)
        self.begin_pass()
        while self.repeated:
            what, value = self.repeated.pop(0)
            self.log = (*self.log, (what, value))
            if what == "removed":
                self._forget()
            else:
                self._run(value)

    # -------------------------------------------------------------- operations
    def operations(self) -> dict[str, Callable[[], None]]:
        """All that can happen now."""
        steps: dict[str, Callable[[], None]] = {}
        if self.owner != self.cached_owner:
            steps["the cache shows the owner"] = self.show_owner
        if self.child != self.cached_child or self.removed or self.own_write is not None:
            steps["the cache shows the child"] = self.show_child
        if self.is_garbage():
            steps["the garbage collector runs"] = self.collect
        if self.running is None:
            steps["a pass begins"] = self.begin_pass
        else:
            steps[f"the {type(self.request).__name__} is answered"] = self.answer
        if self.changes:
            steps |= {name: partial(self._change, change) for name, change in self._owner_changes().items()}
        if self.edits:
            steps |= {name: partial(self._edit, edit) for name, edit in self._child_changes().items()}
        if self.faults:
            if self.bounds.old_standby and self.standby != (self.owner, self.child):
                steps["the standby's cache shows both"] = self.show_standby
            steps["another replica leads"] = partial(self._fault, self.restart)
            if self.running is not None:
                steps[f"the response to the {type(self.request).__name__} is lost"] = partial(self._fault, self.lose)
        return steps

    def _owner_changes(self) -> dict[str, Callable[[], None]]:
        if self.owner is None:
            return {"the owner is created": partial(self.set_owner, "red", new=True)}
        colors = [color for color in ("red", "blue", NONE) if color != self.owner.color]
        changes: dict[str, Callable[[], None]] = {
            f"the owner wants {color}": partial(self.set_owner, color) for color in colors
        }
        return changes | {"the owner is deleted": self.delete_owner}

    def _child_changes(self) -> dict[str, Callable[[], None]]:
        if self.child is None:
            return {"a stranger creates the child": self.create_strange}
        return {"kubectl edits the child": self.edit, "kubectl deletes the child": self.delete_child}

    def _change(self, change: Callable[[], None]) -> None:
        self.changes -= 1
        change()

    def _edit(self, edit: Callable[[], None]) -> None:
        self.edits -= 1
        edit()

    def _fault(self, fault: Callable[[], None]) -> None:
        self.faults -= 1
        fault()

    # -------------------------------------------------------------- the cache
    def show_owner(self) -> None:
        """The cache gets the owner's state."""
        self.cached_owner = self.owner

    def show_child(self) -> None:
        """The cache gets the child's state."""
        before = self.cached_child
        is_gone = before is not None and (self.child is None or uid_of(self.child) != uid_of(before))
        removed, self.removed = self.removed or is_gone, False
        self.cached_child, self.own_write, self.is_unknown = self.child, None, False
        if removed:
            if self.running is not None:
                self.log = (*self.log, ("removed", None))
            self._forget()

    def show_standby(self) -> None:
        """The cache of the other replica gets owner and child."""
        self.standby = self.owner, self.child

    def _forget(self) -> None:
        self.applier.memory.forget(ConfigMap.gvk, KEY)

    # -------------------------------------------------------------- the operator
    def restart(self) -> None:
        """Another replica leads. Its cache has not seen the writes of this one."""
        if self.bounds.old_standby:
            self.cached_owner, self.cached_child = self.standby
        self.own_write, self.is_unknown = None, False
        self._start_operator()

    async def reconcile(self) -> None:
        """Apply what the owner wants, and prune the rest."""
        owner = await self.client.get_or_none(Site, KEY)
        if owner is None:
            return
        self.pass_owner = int(owner.metadata.uid)
        metadata = ObjectMeta(name=KEY.name, namespace=KEY.namespace)
        color = owner.spec.image
        desired = [] if color == NONE else [ConfigMap(metadata=metadata, data={"color": color})]
        await self.applier.apply_all(desired, owner=owner, prune=[ConfigMap])

    def begin_pass(self) -> None:
        """A worker takes the owner's key."""
        self.memory, self.log = copy_of(self.applier.memory), ()
        self.running = self.reconcile()
        self._run(None)

    def read(self, kind: str) -> bytes | None:
        """Return an object of the cache."""
        if self.repeated:
            _, data = self.repeated.pop(0)
        elif kind == "Site":
            data = self.cached_owner.data if self.cached_owner is not None else None
        else:
            if self.is_unknown:
                self.own_write, self.is_unknown = (self.child,), False
            data = self.cached_child if self.own_write is None else self.own_write[0]
        self.log = (*self.log, ("read", data))
        return data

    def _run(self, response: Any) -> None:
        """Continue the pass until its next request."""
        assert self.running is not None
        try:
            if isinstance(response, OpsdkError):
                self.request = self.running.throw(response)
            else:
                self.request = self.running.send(response)
        except (StopIteration, OpsdkError):
            self.running, self.request, self.log = None, None, ()

    def answer(self) -> None:
        """The server handles the request, and the response arrives."""
        try:
            response = self.handle(self.request)
        except OpsdkError as error:
            response = error
        else:
            if not isinstance(self.request, Get):
                self.own_write = (response,)
        self.log = (*self.log, ("answer", response))
        self._run(response)

    def lose(self) -> None:
        """The server handles the request, and the response is lost."""
        with suppress(OpsdkError):
            self.handle(self.request)
        self.is_unknown = not isinstance(self.request, Get)
        error = ConnectionLostError("lost")
        self.log = (*self.log, ("answer", error))
        self._run(error)

    # -------------------------------------------------------------- laws and the state
    def come_to_rest(self) -> None:
        """Let the cache catch up and passes run, and check the laws of rest."""
        for _ in range(_PASSES_TO_REST):
            self._pass_at_rest()
        self._check_child()
        self.writes = 0
        self._pass_at_rest()
        assert self.writes == 0, f"{self.writes} writes at rest"
        if self.child is None:
            memory = self.applier.memory
            remembered = [*memory.records, *memory.foreign, *memory.contentions]
            assert not remembered, f"the applier remembers a child that does not exist: {remembered}"

    def _pass_at_rest(self) -> None:
        if self.is_garbage():
            self.collect()
        self.show_owner()
        self.show_child()
        if self.running is None:
            self.begin_pass()
        while self.running is not None:
            self.answer()
        self.show_child()

    def _check_child(self) -> None:
        tree = {} if self.child is None else msgspec.json.decode(self.child)
        controllers = [owner["uid"] for owner in owners_of(tree)]
        if controllers == [STRANGER]:
            assert tree["data"]["color"] == "strange" or "kubectl" in str(tree), f"a stranger's child: {tree}"
        elif self.owner is None or self.owner.color == NONE:
            assert not controllers, f"the owner {self.owner} has a child: {tree}"
        else:
            assert controllers == [str(self.owner.uid)], f"the child has the owners {controllers}, not {self.owner}"
            assert tree["data"]["color"] == self.owner.color, f"the child is {tree['data']}, not {self.owner}"

    def state(self) -> Hashable:
        """The state, with uids and resource versions replaced by their ranks."""
        memory, labels = self.applier.memory if self.running is None else self.memory, self.applier.labels
        text = repr(
            (
                (self.changes, self.edits, self.faults),
                (self.owner, self.cached_owner, self.child, self.cached_child),
                (self.own_write, self.is_unknown, self.removed, self.standby if self.faults else ()),
                [self._record_text(record) for record in memory.records.values()],
                sorted(labels[digest] for digest in memory.owned_fields),
                list(memory.foreign.values()),
                [contention.count for contention in memory.contentions.values()],
                self.running is not None,
                [(what, str(value)) for what, value in self.log],
            )
        )
        ranks = {number: f"<{rank}>" for rank, number in enumerate(sorted(set(_NUMBER.findall(text))))}
        return _NUMBER.sub(lambda match: ranks[match.group()], text)

    def _record_text(self, record: Any) -> Hashable:
        digests = [self.applier.labels[digest] for digest in (record.source, record.digest, record.previous_digest)]
        return *digests, record.uid, record.resource_version, record.remaining


# ------------------------------------------------------------------ helpers
def kind_of_target(obj: Any) -> Any:
    """Return the kind of an object that a write updates."""
    return Kind(ConfigMap.gvk, type(obj))


def copy_of(memory: ApplierMemory) -> ApplierMemory:
    """Return a copy of a memory, with copies of its values: contentions change."""
    other = copy(memory)
    for name, part in vars(memory).items():
        values = copy(part)
        values.update({key: copy(value) for key, value in part.items()})
        setattr(other, name, values)
    return other
