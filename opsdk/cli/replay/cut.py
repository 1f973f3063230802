"""Makes a test of a place in a recording: the operator has to deal with the state that it saw there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from opsdk.engine.foreign_changes import ForeignChange, write_history
from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.errors import UsageError
from opsdk.testing.references import OperatorReference

__all__ = ["write_cut"]


def write_cut(
    path: Path,
    state: ClusterSnapshot,
    history: Sequence[ForeignChange] = (),
    *,
    reference: str,
    namespace: str,
    place: str,
) -> None:
    """Write a test, and beside it the snapshot that it begins with, and what others did later. Names the files.

    Args:
        path: of the test, such as ``tests/test_night.py``.
        state: that the operator saw.
        history: changes of others after the place. Without any, the test has no second file.
        reference: the operator as ``MODULE:NAME``.
        namespace: of the operator.
        place: in the recording, for the docstring.

    Raises:
        UsageError: the reference or the path has another form.
    """
    operator = OperatorReference.parse(reference)
    if path.suffix != ".py":
        raise UsageError(f"--cut is {path}: name a Python file, such as tests/test_night.py")
    files = [path, path.with_suffix(".snapshot.gz")]
    files[1].write_bytes(write_snapshot(state))
    if history:
        files.append(path.with_suffix(".history.jsonl"))
        files[2].write_bytes(write_history(history))
    path.write_text("\n".join(_lines(operator, namespace, place, plays=bool(history))) + "\n", encoding="utf-8")
    print(f"wrote {', '.join(map(str, files))}", file=sys.stderr)


def _lines(operator: OperatorReference, namespace: str, place: str, *, plays: bool) -> Iterator[str]:
    """Yield the lines of the test."""
    quoted = place.replace("\\", "/").replace('"', "'")
    yield from (f'"""Cut from a recording: {quoted}"""', "", "from pathlib import Path", "")
    yield from (operator.import_line, "from opsdk import Operator", "from opsdk.rbac.permissions import RuleSet")
    yield from ("from opsdk.testing.plans import assert_plan", "", "")
    yield from ("def make_operator() -> Operator:", '    """Return the operator."""')
    yield from (f"    return {operator.expression}", "", "")
    yield "def test_the_operator_deals_with_the_state() -> None:"
    meanwhile = " Others do what they did then." if plays else ""
    yield f'    """It comes to rest from the state that it saw then, and no reconcile fails.{meanwhile}"""'
    yield from ("    plan = assert_plan(", '        Path(__file__).with_suffix(".snapshot.gz"),')
    if plays:
        yield '        history=Path(__file__).with_suffix(".history.jsonl"),'
    yield from ("        operator=make_operator,", f'        namespace="{namespace}",')
    yield from ("        rules=RuleSet.everything(),", "    )")
    yield "    assert not plan.is_dangerous, [each.message for each in plan.consequences]"
