"""Records what the server returned to own writes and reads in the store of one informer, for reads of the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.cache.entry import Problem, StoreEntry
from opsdk.cache.head import HeadMeta
from opsdk.cache.own_writes import revision_of
from opsdk.cache.store import InformerStore
from opsdk.cache.unknown_reads import ReadStart


class InformerWrites:
    """Records results of own writes, and measures when the watch shows them.

    Args:
        store: keeps the results until the watch has passed them; see `OwnWrites`.
        namespace: of the informer: objects in others are ignored; "" for all.
        field_selector: of the informer. Objects are evaluated by name and namespace only.
        report: is called with the failures of user functions.
        on_rollback: is called with a resource version which shows that the API server went back.
    """

    def __init__(
        self,
        store: InformerStore,
        *,
        namespace: str,
        field_selector: FieldSelector,
        report: Callable[[Iterable[Problem]], object],
        on_rollback: Callable[[str], object],
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._field_selector = field_selector
        self._report = report
        self._on_rollback = on_rollback
        self.shown = 0
        """How many own writes the watch has shown."""
        self.delay = 0.0
        """Sum of the seconds from the response to an own write until the watch showed it."""

    def record(self, data: bytes, meta: HeadMeta | None = None, *, sole_change: bool = False, at_least: int = 0) -> str:
        """Record the result of an own write. Returns its resource version.

        Args:
            data: the whole object as JSON.
            meta: the decoded metadata of `data`, if the caller has it.
            sole_change: the object's resource version is certainly this write's: no other change can have it.
            at_least: the lowest version of a server that has not gone back since the request was sent.

        Raises:
            DecodeError: the metadata is unreadable.
        """
        entry = self._make_entry(data, meta)
        if self._is_in_scope(entry):
            revision = revision_of(entry.resource_version)
            self._write(entry, revision, at_least=at_least)
            if sole_change:
                self._expect(entry, revision)
        return entry.resource_version

    def record_read(self, data: bytes, start: ReadStart) -> None:
        """Record an object that was read. If the watch had passed it before, and not shown it, the server went back.

        Args:
            data: the whole object as JSON.
            start: what the store held before the request.

        Raises:
            DecodeError: the metadata is unreadable.
        """
        entry = self._make_entry(data)
        if not self._is_in_scope(entry):
            return
        revision = revision_of(entry.resource_version)
        at_least = start.at_least
        if start.lists != self._store.lists:
            at_least = 0  # the list has shown it, if the server went back
        elif (revision or 0) <= start.revision and not start.has_shown(entry) and self._store.selects(entry):
            at_least = start.revision + 1
        self._write(entry, revision, at_least=at_least)

    def _make_entry(self, data: bytes, meta: HeadMeta | None = None) -> StoreEntry:
        entry = self._store.make_entry(data, meta)
        if self._store.problems:
            self._report(self._store.take_problems())
        return entry

    def _is_in_scope(self, entry: StoreEntry) -> bool:
        """Whether namespace and field selector select an object. One that is stored fulfils the other fields."""
        if self._namespace and self._namespace != entry.key.namespace:
            return False
        if not self._field_selector.requirements:
            return True
        fields = {"metadata.name": entry.key.name, "metadata.namespace": entry.key.namespace}
        for requirement in self._field_selector.requirements:
            value = fields.get(requirement.field)
            if value is None and entry.key not in self._store:
                return False
            if value is not None and (value == requirement.value) is requirement.negated:
                return False
        return True

    def _write(self, entry: StoreEntry, revision: int | None, *, at_least: int) -> None:
        went_back = revision is not None and revision < at_least
        if went_back:
            self._on_rollback(entry.resource_version)
        self._store.write(entry, revision, after_rollback=went_back)

    def _expect(self, entry: StoreEntry, revision: int | None) -> None:
        """Expect the event of a write, which is the sole change to this state."""
        passed = self._store.revision  # 0 before the first list
        if passed and revision is not None and passed >= revision:
            self.shown += 1  # the watch was faster than the response
        else:
            self._store.own.record_own_change(entry, revision, passed=passed, written_at=monotonic())

    # -------------------------------------------------------------- what the watch shows
    def measure_shown(self) -> None:
        """Measure how long after own writes the watch has shown them: the delay of server, network and event loop."""
        times = self._store.own.shown_own_changes
        self.shown += len(times)
        self.delay += len(times) * monotonic() - sum(times)
        times.clear()

    def skip_shown(self) -> None:
        """Measure nothing for the own writes that a list has shown: it came after a gap of the watch."""
        self._store.own.shown_own_changes.clear()

    def __repr__(self) -> str:
        return f"<InformerWrites: {self.shown} shown, {self._store.own!r}>"
