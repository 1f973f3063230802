"""Accidents of others are shown as dangerous; harmless upgrades are not."""

from __future__ import annotations

import pytest
from slow_cases import mostly_slow

from opsdk.engine.plan import ConsequenceKind, Severity
from tests.engine.upgrade_cases import ACCIDENTS, HARMLESS
from tests.engine.upgrades import plan_for, state_of


@pytest.mark.parametrize("name", mostly_slow(ACCIDENTS, every=4))
def test_an_accident_is_dangerous(name: str) -> None:
    """The plan names the consequence."""
    upgrade = ACCIDENTS[name]
    plan = plan_for(upgrade.new, state_of(upgrade.old, apps=upgrade.apps, more=upgrade.more))
    assert upgrade.kind in {each.kind for each in plan.consequences if each.severity is Severity.DANGER}


@pytest.mark.parametrize("name", mostly_slow(HARMLESS, every=4))
def test_a_harmless_upgrade_is_not_dangerous_and_leaves_nothing_behind(name: str) -> None:
    """False alarms make a plan useless."""
    upgrade = HARMLESS[name]
    plan = plan_for(upgrade.new, state_of(upgrade.old, apps=upgrade.apps, more=upgrade.more))
    assert [each for each in plan.consequences if each.severity is Severity.DANGER] == []
    assert [each for each in plan.consequences if each.kind is ConsequenceKind.LEFT_BEHIND] == []
