"""What another process decides, whose strings have other hashes."""

from __future__ import annotations

import pytest

from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.cli.verify.process import check_processes
from opsdk.errors import OpsdkError
from opsdk.verification.generated_run import GeneratedSummary
from opsdk.verification.oracles import Oracle

pytestmark = pytest.mark.slow


def findings(name: str) -> list[str]:
    """What two processes do not have in common."""
    summary = GeneratedSummary()
    check_processes(OperatorInputs(operator=f"planted.names:{name}", operations=4), summary)
    assert summary.checks == {Oracle.PROCESSES: 1}
    return [text for finding in summary.findings for text in finding.differences]


def test_a_hash_in_a_name_is_found() -> None:
    """Each process has another child; the advice says what to do."""
    texts = findings("hashed_names")
    assert any("exists 0 times, in another process 1 times" in text for text in texts)
    assert "do not use hash()" in texts[-1]


def test_a_digest_in_a_name_is_equal_in_each_process() -> None:
    """The repaired twin."""
    assert findings("hashed_names_repaired") == []


def test_an_operator_that_another_process_cannot_load_is_an_error() -> None:
    """With the last line of its error."""
    with pytest.raises(OpsdkError, match=r"does not run in another process: .*absent_module"):
        check_processes(OperatorInputs(operator="absent_module:operator"), GeneratedSummary())
