"""The shell lines of the actions that plan a pull request, with a server of GitHub that is a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from documentation import ROOT

from opsdk.engine.snapshot import write_snapshot
from tests.engine.upgrades import Version, config, state_of

ACTIONS = ROOT / ".github" / "actions"
FAKE_GH = """#!/bin/sh
echo "$@" >> calls
case "$*" in
*--paginate*) cat comments ;;
*) for word; do case "$word" in body=@*) cat "${word#body=@}" > posted ;; esac; done ;;
esac
"""


def _program(folder: Path, name: str, text: str) -> None:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _steps(action: str, folder: Path, variables: Mapping[str, str]) -> int:
    """Run the steps of an action as GitHub does. Returns the status of the first that fails, else 0."""
    steps: list[Any] = yaml.safe_load((ACTIONS / action / "action.yml").read_text())["runs"]["steps"]
    summary, output = folder / "summary.md", folder / "output"
    for step in steps:
        assert step["shell"] == "bash"
        written = dict(line.partition("=")[::2] for line in output.read_text().splitlines()) if output.exists() else {}
        environment = {
            **os.environ,
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": str(output),
            **variables,
            **({"STATUS": written["status"]} if "STATUS" in step["env"] else {}),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        (folder / "log").write_text(done.stdout + done.stderr)
        if done.returncode:
            return done.returncode
    return 0


def _planned(folder: Path, **variables: str) -> int:
    defaults = {"SNAPSHOT": "cluster.snapshot.gz", "AGAINST": "", "ARGUMENTS": "", "FILE": "plan.md"}
    return _steps("plan", folder, {**defaults, **variables})


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (2, 0), (1, 1), (3, 3), (64, 64)])
def test_changes_pass_and_dangers_fail(tmp_path: Path, status: int, expected: int) -> None:
    """The summary has the plan in each case, so that a reader sees why the job failed."""
    _program(tmp_path, "opsdk", f"#!/bin/sh\necho '### Plan'; echo \"$@\" > words; exit {status}\n")
    assert _planned(tmp_path, AGAINST="git:origin/main", ARGUMENTS="--fail-on data-deleted") == expected
    assert (tmp_path / "summary.md").read_text() == "### Plan\n"
    words = "plan --fail-on data-deleted --snapshot cluster.snapshot.gz --against git:origin/main --output markdown"
    assert (tmp_path / "words").read_text().strip() == words


def test_a_plan_that_fails_says_so_in_the_summary(tmp_path: Path) -> None:
    """Without a plan, the summary has the status and the place of the reason."""
    _program(tmp_path, "opsdk", "#!/bin/sh\necho reason >&2; exit 1\n")
    assert _planned(tmp_path) == 1
    assert "status 1" in (tmp_path / "summary.md").read_text()


def test_the_log_has_the_whole_of_a_plan_that_was_cut(tmp_path: Path) -> None:
    """The plan as text is printed only then."""
    _program(tmp_path, "opsdk", '#!/bin/sh\n[ "$5" = text ] && touch whole\necho "Left out, because"; exit 2\n')
    assert _planned(tmp_path) == 0
    assert (tmp_path / "whole").exists()


@pytest.mark.parametrize(("comments", "method"), [("", "POST"), ("17\n18\n", "PATCH")])
def test_a_pull_request_has_one_comment(tmp_path: Path, comments: str, method: str) -> None:
    """The first run posts it, and later runs replace it."""
    _program(tmp_path, "gh", FAKE_GH)
    (tmp_path / "comments").write_text(comments)
    (tmp_path / "plan.md").write_text("### Plan of shop\n")
    variables = {"FILE": "plan.md", "NUMBER": "7", "REPOSITORY": "shop/operator", "RUN": "https://run", "GH_TOKEN": "t"}
    assert _steps("comment", tmp_path, variables) == 0
    posted = (tmp_path / "posted").read_text()
    assert posted == "<!-- opsdk plan -->\n### Plan of shop\n\n[The run with the log](https://run)\n"
    call = (tmp_path / "calls").read_text().splitlines()[-1]
    path = "issues/comments/17" if comments else "issues/7/comments"
    assert call.startswith(f"api --method {method} repos/shop/operator/{path} ")


@pytest.mark.slow
def test_the_action_plans_with_opsdk(tmp_path: Path) -> None:
    """The command of this environment prints a plan of the greeter."""
    (tmp_path / "cluster.snapshot.gz").write_bytes(
        write_snapshot(state_of(Version(children=lambda name: [config(name, a="1")])))
    )
    arguments = f"{ROOT / 'samples/greeter/greeter.py'} --until 60"
    path = os.environ["PATH"]
    assert _planned(tmp_path, ARGUMENTS=arguments, PATH=f"{Path(sys.executable).parent}{os.pathsep}{path}") == 0, (
        tmp_path / "log"
    ).read_text()
    assert (tmp_path / "summary.md").read_text().startswith("### Plan of greeter ")
