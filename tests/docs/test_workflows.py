"""The workflow files that pages show: GitHub accepts them, and they use the actions that this project uses."""

from __future__ import annotations

import re

import yaml
from documentation import ROOT

PAGE = ROOT / "docs" / "howto" / "plan-in-ci.md"
VERIFY = ROOT / "docs" / "howto" / "verify-kubebuilder.md"
ACTION = re.compile(r"uses: (\S+@[0-9a-f]{40}  # v\S+)")


def test_the_workflows_use_the_pinned_actions_of_this_project() -> None:
    """Each action has the commit and the version that .github/workflows has, so an update changes both."""
    pinned = {use for path in (ROOT / ".github/workflows").glob("*.yml") for use in ACTION.findall(path.read_text())}
    uses = set(re.findall(r"uses: (.*)", PAGE.read_text() + VERIFY.read_text()))
    own = {use for use in uses if use.startswith("./")}
    assert own == {"./.github/actions/plan", "./.github/actions/comment"}
    assert uses - own <= pinned


def test_the_jobs_of_the_workflows_have_no_more_permissions_than_they_need() -> None:
    """No workflow has a permission by default, and none has the kubeconfig where code of a pull request runs.

    The job that may write a comment runs the code of the main branch.
    """
    workflows = dict(re.findall(r'```yaml title="\.github/workflows/(\S+)"\n(.*?)```', PAGE.read_text(), re.DOTALL))
    assert sorted(workflows) == ["plan.yml", "snapshot.yml"]
    for text in workflows.values():
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {}
        for name, job in workflow["jobs"].items():
            allowed = {"contents": "read", "pull-requests": "write"} if name == "comment" else None
            assert job["permissions"] == allowed or set(job["permissions"].values()) == {"read"}
    assert "secrets." not in workflows["plan.yml"]
    comment = yaml.safe_load(workflows["plan.yml"])["jobs"]["comment"]
    assert comment["steps"][0]["with"]["ref"] == "${{ github.base_ref }}"
    assert not any("run" in step for step in comment["steps"])
