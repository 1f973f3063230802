"""The workflow files that pages show: GitHub accepts them, and they use the actions that this project uses."""

from __future__ import annotations

import re

import yaml
from documentation import ROOT

PAGE = ROOT / "docs" / "howto" / "plan-in-ci.md"
ACTION = re.compile(r"uses: (\S+@[0-9a-f]{40}  # v\S+)")


def test_the_workflows_use_the_pinned_actions_of_this_project() -> None:
    """Each action has the commit and the version that .github/workflows has, so an update changes both."""
    pinned = {use for path in (ROOT / ".github/workflows").glob("*.yml") for use in ACTION.findall(path.read_text())}
    uses = re.findall(r"uses: (.*)", PAGE.read_text())
    assert uses
    assert set(uses) <= pinned


def test_the_jobs_of_the_workflows_have_no_more_permissions_than_they_need() -> None:
    """No workflow has a permission by default, no job may write, and the plan's job has no secret."""
    workflows = dict(re.findall(r'```yaml title="\.github/workflows/(\S+)"\n(.*?)```', PAGE.read_text(), re.DOTALL))
    assert sorted(workflows) == ["plan.yml", "snapshot.yml"]
    for text in workflows.values():
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {}
        for job in workflow["jobs"].values():
            assert set(job["permissions"].values()) == {"read"}
    assert "secrets." not in workflows["plan.yml"]
