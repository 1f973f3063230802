"""Runs ``opsdk verify`` with its defaults on a case and on its twin: nothing but the declaration is known of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from planted.table import Verdict, run

from opsdk.verification.disturbances import DisturbanceKind
from tests.corpus.case import CorpusCase
from tests.corpus.results import DeclaredResult

_ROOT: Final = Path(__file__).parents[2]
_DISTURBANCES: Final = frozenset(each.value for each in DisturbanceKind)
_FOUND: Final = 2
_FILE: Final = """from {module} import CASES

operator = next(case for case in CASES if case.name == "{name}").{twin}
"""


def declared_search(case: CorpusCase) -> DeclaredResult:
    """Return what the command shows of the broken operator."""
    verdict = _verdict(case, "broken")
    return DeclaredResult(
        reported=_reported(verdict), status=verdict.status, seconds=round(verdict.seconds, 1), commit=_commit()
    )


def with_the_twin(case: CorpusCase, result: DeclaredResult) -> DeclaredResult:
    """Return a result with what the command shows of the twin."""
    verdict = _verdict(case, "repaired")
    return msgspec.structs.replace(
        result,
        twin_reported=_reported(verdict),
        twin_texts=verdict.found if verdict.status == _FOUND else (),
        twin_status=verdict.status,
        twin_seconds=round(verdict.seconds, 1),
    )


def _commit() -> str:
    """Return the commit of the working tree, without changes that are not committed."""
    return subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], cwd=_ROOT, text=True).strip()


def _verdict(case: CorpusCase, twin: str) -> Verdict:
    text = _FILE.format(module=_module_of(case), name=case.name, twin=twin)
    with TemporaryDirectory() as folder:
        (Path(folder) / "case.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        return run(["case.py:operator"], folder=Path(folder), environment=environment)


def _module_of(case: CorpusCase) -> str:
    """Return the module that declares a case: an operator is one file, and each start imports it anew."""
    package = f"tests.corpus.{case.study.value.lower()}."
    modules = {name: module for name, module in sys.modules.items() if name.startswith(package)}
    return next(
        name
        for name, module in modules.items()
        if name != f"{package}cases" and any(each is case for each in getattr(module, "CASES", ()))
    )


def _reported(verdict: Verdict) -> list[str]:
    """Return the oracles and disturbances of the reported bugs, each once."""
    if verdict.status != _FOUND:
        return []
    return list(dict.fromkeys(_rule_of(text) for text in verdict.found))


def _rule_of(text: str) -> str:
    word = text.partition(" ")[0]
    return word if word in _DISTURBANCES else text.partition(":")[0]
