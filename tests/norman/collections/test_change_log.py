"""The latest changes of a list."""

from __future__ import annotations

import pytest
from stevekit import entry

from opsdk.errors import NormanError
from opsdk.norman.collections.change_log import Change, ChangeLog


def test_a_log_returns_what_came_after_a_revision_or_says_that_it_forgot() -> None:
    """A revision before the oldest kept change is a 410."""
    log = ChangeLog(2)
    log.start(5)
    for revision in (6, 7, 8):
        log.add(Change(revision, None, entry("a", revision=revision)))
    assert [change.revision for change in log.since(6)] == [7, 8]
    assert log.since(8) == []
    with pytest.raises(NormanError, match="list again") as caught:
        log.since(5)
    assert caught.value.status == 410
    assert log.since(7)[0].entry.resource_version == "8"
