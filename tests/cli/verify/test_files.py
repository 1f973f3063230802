"""The result of a verification as JUnit XML and as SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cli.verify.files import ReportedBug, ReportOutputs, VerifyResult, junit_text, sarif_text
from opsdk.errors import OpsdkError, UsageError

BUG = ReportedBug(rule="refuse", title="refuse write 1", text="state at rest: <&>", file="sites.py", line=7)
RESULT = VerifyResult(name="sites:operator", tried={"refuse": 3, "early": 2, "hide": 0}, bugs=(BUG,))


def suite(result: VerifyResult) -> ET.Element:
    """The only suite of a report."""
    (only,) = ET.fromstring(junit_text(result))
    return only


def test_each_bug_is_a_failed_test_and_each_rule_without_one_a_test() -> None:
    """A rule that never applied is no test: it says nothing."""
    names = {case.get("name"): case.find("failure") for case in suite(RESULT)}
    assert set(names) == {"refuse write 1", "early (2 times)", "all disturbances of the budget"}
    failure = names["refuse write 1"]
    assert failure is not None
    assert failure.text == BUG.text
    assert (suite(RESULT).get("tests"), suite(RESULT).get("failures")) == ("3", "1")


def test_what_the_time_limit_left_out_is_a_skipped_test_and_an_error_is_an_error() -> None:
    """So a CI server does not show an unfinished run as a complete one."""
    unfinished, failed = VerifyResult(name="a", left_out={"hide": 4}), VerifyResult(name="a", error="no program\nmore")
    skipped = suite(unfinished).find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "left out for lack of time: 4 hide"
    error = suite(failed).find("testcase/error")
    assert error is not None
    assert (error.get("message"), suite(failed).get("errors")) == ("no program", "1")


@given(st.text(), st.text())
def test_any_text_is_a_document(title: str, text: str) -> None:
    """Also the escape sequences that a program prints."""
    bug = ReportedBug(rule="hide", title=title, text=text)
    result = VerifyResult(name=title, bugs=(bug,), error=text)
    assert suite(result).get("failures") == "1"
    assert json.loads(sarif_text(result))["runs"][0]["results"][0]["ruleId"] == "hide"


def test_a_sarif_result_has_the_line_of_the_write() -> None:
    """A bug without one has the operator's name; each result names a rule of the driver."""
    far = ReportedBug(rule="early", title="b", text="b", file="/srv/b.py", line=1)
    plain = ReportedBug(rule="hide", title="c", text="c")
    (run,) = json.loads(sarif_text(VerifyResult(name="sites:operator", bugs=(BUG, far, plain))))["runs"]
    places = [each["locations"][0].get("physicalLocation") for each in run["results"]]
    assert places[0] == {"artifactLocation": {"uri": "sites.py"}, "region": {"startLine": 7}}
    assert places[1]["artifactLocation"]["uri"] == "file:///srv/b.py"
    assert places[2] is None
    assert run["results"][2]["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "sites:operator"}]
    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    assert all(rules[each["ruleIndex"]] == each["ruleId"] for each in run["results"])


def test_files_are_written_also_when_nothing_was_verified(tmp_path: Path) -> None:
    """With the reason, and the error goes on."""
    outputs = ReportOutputs(junit=tmp_path / "verify.xml", sarif=tmp_path / "verify.sarif")
    with pytest.raises(OpsdkError), outputs.with_errors("./manager"):
        raise OpsdkError("the operator ended")
    assert "the operator ended" in (tmp_path / "verify.xml").read_text()
    (run,) = json.loads((tmp_path / "verify.sarif").read_text())["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        ReportOutputs(junit=tmp_path / "none" / "verify.xml").write(RESULT)
