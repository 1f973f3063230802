"""Features that look like bugs are not reported."""

from __future__ import annotations

import pytest

from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.verification.generated_run import check_generated
from opsdk.verification.life.run import check_life


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paused", "retained"])
def test_a_feature_of_the_spec_is_not_a_bug(name: str) -> None:
    """What the spec decides is right: that nothing is written, or that something outlives the object."""
    verification = OperatorInputs(operator=f"planted.features:{name}").generated()
    summary = check_generated(verification)
    check_life(verification, summary, sleep=lambda _: None)
    assert [str(each) for each in summary.findings] == []
