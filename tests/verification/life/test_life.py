"""Workloads like life find planted bugs, and their repaired twins are quiet."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from planted.table import Planted, planted, run

from opsdk import Operator
from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.engine.doubles import EMPTY_CLUSTER, Doubles
from opsdk.verification.generated_run import GeneratedSummary
from opsdk.verification.life.run import check_life
from opsdk.verification.oracles import Oracle

IN_CI = {
    "taken_over": Oracle.FOREIGN_OBJECTS,
    "cut_names": Oracle.NEIGHBOURS,
    "kept_record": Oracle.LEFT_OVER,
    "deleted_credentials": Oracle.DELETION,
    "replaced_annotations": Oracle.FOREIGN_OBJECTS,
    "dropped_finalizers": Oracle.DELETION,
    "foreground_deletion": Oracle.DELETION,
    "terminating_namespace": Oracle.DELETION,
}
"""The planted bugs of the fast tests, and what finds them."""
ALL = {each.name: each for each in planted()}


@pytest.mark.parametrize("name", ALL)
def test_each_row_of_the_table_has_two_operators(name: str) -> None:
    """No helper function of the same modules is a row."""
    module = importlib.import_module(f"planted.{ALL[name].module}")
    arguments = [EMPTY_CLUSTER] if ALL[name].module == "external" else []
    for each in (name, f"{name}_repaired"):
        assert isinstance(getattr(module, each)(*arguments), Operator | Doubles)


def findings(each: Planted, *, repaired: bool) -> list[Oracle]:
    """What workloads like life show of an operator."""
    name = f"{each.name}_repaired" if repaired else each.name
    reference = f"planted.{each.module}:{name}"
    is_external = each.module == "external"
    operator, doubles = ("planted.kinds:operator_of", reference) if is_external else (reference, "")
    inputs = OperatorInputs(operator=operator, doubles=doubles, operations=8)
    summary = GeneratedSummary()
    check_life(inputs.generated(), summary, sleep=lambda _: None)
    return [finding.oracle for finding in summary.findings]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_CI)
def test_a_planted_bug_is_found_without_a_disturbance(name: str) -> None:
    """By the law that it breaks, and by no other one."""
    assert findings(ALL[name], repaired=False) == [IN_CI[name]]


@pytest.mark.parametrize("name", ["kept_record", pytest.param("rotated_secret", marks=pytest.mark.slow)])
def test_a_repaired_twin_is_quiet(name: str) -> None:
    """It has the same children, names and records."""
    assert findings(ALL[name], repaired=True) == []


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("name", ALL)
def test_the_command_finds_each_planted_bug(name: str) -> None:
    """With its defaults, from the declaration alone; the twin survives."""
    each = ALL[name]
    assert run(each.arguments(repaired=False)).found
    twin = run(each.arguments(repaired=True))
    assert (twin.found, twin.status) == ([], 0)


def advice_of(operator: str) -> list[str]:
    """The advice of workloads like life."""
    summary = GeneratedSummary()
    check_life(OperatorInputs(operator=operator, operations=4).generated(), summary, sleep=lambda _: None)
    return summary.advice


@pytest.mark.slow
def test_a_long_name_is_to_blame_only_where_a_short_one_succeeds() -> None:
    """A reconcile that fails for each name says nothing about long ones."""
    assert advice_of("planted.names:_failing") == []
    assert [each.partition(" fails")[0] for each in advice_of("planted.names:_unshortened")] == [
        "the reconcile of a Site whose name has 63 characters",
        "the reconcile of a Site whose name has 253 characters",
    ]


def test_the_memory_of_modules_behind_doubles_ends_with_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The double outlives a start of the operator, and what the operator's module remembers does not."""
    (tmp_path / "remembering.py").write_text(
        "from opsdk import Operator\nSEEN = []\n\n\ndef make(double):\n    SEEN.append(double)\n"
        "    operator = Operator('seen')\n    operator.seen = SEEN\n    return operator\n"
    )
    (tmp_path / "doubles_of_remembering.py").write_text(
        "from opsdk.testing.doubles import Doubles\nfrom remembering import make\n\n\n"
        "def doubles(_):\n    double = {}\n    return Doubles(operator=lambda: make(double), systems=double)\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    inputs = OperatorInputs(operator="remembering:make", doubles="doubles_of_remembering:doubles")
    doubles = inputs.doubles_factory()(EMPTY_CLUSTER)
    memories = [doubles.operator().seen for _ in range(2)]  # type: ignore[attr-defined]
    assert [len(each) for each in memories] == [1, 1]
    assert memories[0][0] is memories[1][0] is doubles.systems
    for name in ("remembering", "doubles_of_remembering"):
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
