"""Makes a test of a place in a recording: the operator has to deal with the state that it saw there."""

from __future__ import annotations

from pathlib import Path

from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.errors import UsageError

__all__ = ["write_cut"]


def write_cut(path: Path, state: ClusterSnapshot, *, reference: str, namespace: str, place: str) -> Path:
    """Write a test, and beside it the snapshot that it begins with. Returns the file of the snapshot.

    Args:
        path: of the test, such as ``tests/test_night.py``.
        state: that the operator saw.
        reference: the operator as ``MODULE:NAME``.
        namespace: of the operator.
        place: in the recording, for the docstring.

    Raises:
        UsageError: the reference or the path has another form.
    """
    module, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise UsageError(
            f"--cut needs the operator as MODULE:NAME, and has {reference!r}: opsdk replay FILE MODULE:NAME"
        )
    if path.suffix != ".py":
        raise UsageError(f"--cut is {path}: name a Python file, such as tests/test_night.py")
    snapshot = path.with_suffix(".snapshot.gz")
    snapshot.write_bytes(write_snapshot(state))
    text = _TEST.format(module=module, attribute=attribute, namespace=namespace, place=place.replace('"', "'"))
    path.write_text(text, encoding="utf-8")
    return snapshot


_TEST = '''"""Cut from a recording: {place}"""

from pathlib import Path

from {module} import {attribute}
from opsdk import Operator
from opsdk.rbac.permissions import ANY, Permission, RuleSet
from opsdk.testing.plans import assert_plan

EVERYTHING = RuleSet([Permission(ANY, ANY, ANY)])


def make_operator() -> Operator:
    """Return the operator."""
    return {attribute} if isinstance({attribute}, Operator) else {attribute}()


def test_the_operator_deals_with_the_state() -> None:
    """It comes to rest from the state that it saw then, and no reconcile fails."""
    state = Path(__file__).with_suffix(".snapshot.gz")
    plan = assert_plan(state, operator=make_operator, namespace="{namespace}", rules=EVERYTHING)
    assert not plan.is_dangerous, [each.message for each in plan.consequences]
'''
