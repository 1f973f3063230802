"""The entries of doubles."""

from __future__ import annotations

from opsdk.verification.life.external import entries_left, entries_of, forget_entries


class Service:
    """A double with records, a log of calls, and a part."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.calls: list[str] = []
        self.part = Part()


class Part:
    """A part of a double."""

    def __init__(self) -> None:
        self.names: set[str] = set()


def test_what_stays_in_a_double_is_left_over_and_a_log_is_not() -> None:
    """A list that only grows is a log; one that shrank holds records."""
    service = Service()
    before = entries_of(service)
    service.records["a"] = "1"
    service.part.names.add("a")
    service.calls += ["create"]
    among = entries_of(service)
    service.calls += ["delete"]
    differences = entries_left(service, before, among, entries_of(service))
    assert [each.place for each in differences] == ["part.names left over", "records left over"]
    service.calls.clear()
    del service.records["a"]
    service.calls += ["late"]
    assert "calls left over" in [
        each.place for each in entries_left(service, before, {**among, "calls": 3}, entries_of(service))
    ]


def test_a_double_forgets_its_records() -> None:
    """Its log stays."""
    service = Service()
    service.records["a"] = service.calls.append("create") or "1"
    service.part.names.add("a")
    forget_entries(service)
    assert entries_of(service) == {"records": 0, "calls": 1, "part.names": 0}


def test_no_double_has_no_entries() -> None:
    """An operator without external systems."""
    assert entries_of(None) == {}
