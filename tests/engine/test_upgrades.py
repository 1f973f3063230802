"""Accidents of others are shown as dangerous; harmless upgrades are not."""

from __future__ import annotations

import pytest

from opsdk.engine.plan import Severity
from tests.engine.upgrade_cases import ACCIDENTS, HARMLESS
from tests.engine.upgrades import plan_for, state_of


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_accident_is_dangerous(name: str) -> None:
    """The plan names the consequence."""
    upgrade = ACCIDENTS[name]
    plan = plan_for(upgrade.new, state_of(upgrade.old, apps=upgrade.apps, more=upgrade.more))
    assert upgrade.kind in {each.kind for each in plan.consequences if each.severity is Severity.DANGER}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_upgrade_is_not_dangerous(name: str) -> None:
    """A plan that cries wolf is not read."""
    upgrade = HARMLESS[name]
    plan = plan_for(upgrade.new, state_of(upgrade.old, apps=upgrade.apps, more=upgrade.more))
    assert [each for each in plan.consequences if each.severity is Severity.DANGER] == []
