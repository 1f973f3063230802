"""The result of ``opsdk verify`` for other programs: JUnit XML for CI servers, SARIF for code scanning.

Upstream: docs.oasis-open.org/sarif/sarif/v2.1.0
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from opsdk.base.version import VERSION
from opsdk.cli.output import OutputFormat, print_result
from opsdk.errors import OpsdkError, UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["ReportOutputs", "ReportedBug", "VerifyResult", "junit_text", "sarif_text"]

_TOOL: Final = "opsdk verify"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, such as the escape sequences in the output of a program."""


class ReportedBug(msgspec.Struct, frozen=True, kw_only=True):
    """One bug.

    Attributes:
        rule: the oracle, or the kind of the disturbance, that found it.
        title: one line.
        text: the whole report.
        file: of the write that led to it; empty if it is not known.
        line: of the write.
    """

    rule: str
    title: str
    text: str
    file: str = ""
    line: int = 0


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification shows.

    Attributes:
        name: the operator, or the command.
        tried: how often each rule applied.
        bugs: each once.
        left_out: what the time limit left out, by kind.
        error: why nothing was verified; empty if something was.
        seconds: of real time.
    """

    name: str
    tried: Mapping[str, int] = {}
    bugs: tuple[ReportedBug, ...] = ()
    left_out: Mapping[str, int] = {}
    error: str = ""
    seconds: float = 0.0


class ReportOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """What gets the result.

    Attributes:
        output: the form of standard output.
        junit: JUnit XML.
        sarif: SARIF 2.1.0.
    """

    output: OutputFormat = OutputFormat.TEXT
    junit: Path | None = None
    sarif: Path | None = None

    def publish(self, document: JsonValue, lines: Iterable[str], result: VerifyResult) -> None:
        """Print a result, and write the files. Raises `UsageError` if one cannot be written."""
        print_result(self.output, document, lines)
        self.write(result)

    def write(self, result: VerifyResult) -> None:
        """Write the files. Raises `UsageError` if one cannot be written."""
        for file, text in ((self.junit, junit_text), (self.sarif, sarif_text)):
            if file is None:
                continue
            try:
                file.write_text(text(result), encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{file} cannot be written: {error.strerror}") from error

    @contextmanager
    def with_errors(self, name: str) -> Iterator[None]:
        """Write the files also when the block raises: a CI server then shows why."""
        try:
            yield
        except OpsdkError as error:
            self.write(VerifyResult(name=name, error=str(error)))
            raise


def junit_text(result: VerifyResult) -> str:
    """Return a result as JUnit XML: a test for each bug, one for each rule without a bug, and one for the budget.

    >>> bug = ReportedBug(rule="refuse", title="refuse write 1", text="state at rest: ...")
    >>> text = junit_text(VerifyResult(name="sites:operator", tried={"refuse": 2, "early": 1}, bugs=(bug,)))
    >>> 'tests="3" failures="1"' in text, '<testcase classname="opsdk verify" name="early (1 times)" />' in text
    (True, True)
    """
    suite = ET.Element("testsuite", name=_text(f"{_TOOL} {result.name}"))
    for bug in result.bugs:
        failure = ET.SubElement(_case(suite, bug.title), "failure", message=_text(bug.title), type=bug.rule)
        failure.text = _text(bug.text)
    broken = {bug.rule for bug in result.bugs}
    for rule, count in result.tried.items():
        if count and rule not in broken:
            _case(suite, f"{rule} ({count} times)")
    budget = _case(suite, "all disturbances of the budget")
    if result.left_out:
        counts = ", ".join(f"{count} {kind}" for kind, count in result.left_out.items())
        ET.SubElement(budget, "skipped", message=f"left out for lack of time: {counts}")
    if result.error:
        ET.SubElement(budget, "error", message=_text(result.error.partition("\n")[0])).text = _text(result.error)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(result.bugs)))
    suite.set("errors", str(int(bool(result.error))))
    suite.set("skipped", str(int(bool(result.left_out))))
    suite.set("time", f"{result.seconds:.1f}")
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_TOOL, name=_text(name))


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def sarif_text(result: VerifyResult) -> str:
    """Return the bugs as SARIF. A bug without a known line is located by the operator's name."""
    rules = sorted({bug.rule for bug in result.bugs})
    notification: JsonObject = {"level": "error", "message": {"text": result.error}}
    invocation: JsonObject = {"executionSuccessful": not result.error}
    if result.error:
        invocation["toolExecutionNotifications"] = [notification]
    driver: JsonObject = {
        "name": _TOOL,
        "version": VERSION,
        "rules": [{"id": rule, "shortDescription": {"text": rule}} for rule in rules],
    }
    run: JsonObject = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "properties": {"leftOut": dict(result.left_out)},
        "results": [_sarif_result(result.name, bug, rules.index(bug.rule)) for bug in result.bugs],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_result(name: str, bug: ReportedBug, rule: int) -> JsonValue:
    location: JsonObject = {"logicalLocations": [{"fullyQualifiedName": name}]}
    if bug.file:
        uri = Path(bug.file).as_uri() if Path(bug.file).is_absolute() else Path(bug.file).as_posix()
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": {"startLine": bug.line}}
    return {
        "ruleId": bug.rule,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": f"{bug.title}\n{bug.text}"},
        "locations": [location],
        "partialFingerprints": {"bug/v1": f"{bug.rule} {bug.file} {bug.title}"},
    }
