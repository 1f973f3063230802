"""``opsdk generate policies``: of a file, without a project."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from opsdk.cli.__main__ import main

MODULE = """
from opsdk import Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.webhook.policies import AdmissionRule, policy


@policy(ConfigMap)
class HasData:
    rules = [AdmissionRule("has(object.data)", message="data is missing")]


operator = Operator("guard")
operator.add_policy(HasData)
"""


def test_the_policies_of_a_file_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file names its operator, as for opsdk run."""
    file = tmp_path / "guard_of_policies.py"
    file.write_text(MODULE)
    assert main(["generate", "policies", str(file)]) == 0
    printed = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(capsys.readouterr().out)]
    assert printed == [
        ("ValidatingAdmissionPolicy", "guard.has-data"),
        ("ValidatingAdmissionPolicyBinding", "guard.has-data"),
    ]
