"""The page of questions leads to the answers."""

from __future__ import annotations

import re

import pytest
from documentation import DOCS, anchors, blocks, slug

PAGE = DOCS / "howto" / "questions.md"
ROWS = re.findall(r"^\| ([^|]+\?) \| \[[^\]]+\]\(([^)]+)\) \|$", PAGE.read_text(), re.MULTILINE)
WORDS = {
    "install": "pip install",
    "kind or minikube": "minikube",
    "IDE": "launch.json",
    "daemon": "@operator.daemon",
    "cron": "CronSource",
    "old value": "last_reconciled",
    "Secret or ConfigMap": "hash",
    "upgrade": "pip install --upgrade",
    "Kubernetes versions": "1.36",
    "retry": "TemporaryError",
    "give up": "retry_limit",
    "backoff": "rate_limiter",
    "rate limit": "rate_limiter",
    "own status writes": "ignore_own_status_writes",
    "blocks": "thread",
    "wait for a Deployment": "ready=",
    "exclude namespaces": "metadata.namespace!=",
    "add a version": "opsdk create version",
    "adopt": "controller reference",
    "two controllers": "one informer",
    "another cluster": "KindSource",
    "memory": "transform",
    "why an object": "opsdk why",
    "pause": "opsdk.dev/paused",
    "locally": "opsdk dev --cluster",
    "minimal permissions": "rbac=",
    "multiple replicas": "--leader-elect",
    "gracefully": "--shutdown-timeout",
    "two operators": "--leader-elect",
    "FastAPI": "lifespan",
    "share code": "implied=True",
    "slow REST API": "max_concurrent_reconciles",
    "password": "create_once",
    "immutable": "422",
    "sidecar": 'operations=["CREATE"]',
    "mypy": "no plugin",
}
"""Words of a question, and what its answer contains."""


def test_each_row_is_a_question_with_one_link() -> None:
    """No row of the tables has another form, and no question stands twice."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "how do I" not in line]
    assert len(ROWS) == len([row for row in rows if not row.startswith("| ---")])
    assert len({question for question, _ in ROWS}) == len(ROWS)
    assert not blocks(PAGE)


@pytest.mark.parametrize(("question", "link"), ROWS, ids=[question for question, _ in ROWS])
def test_each_answer_exists(question: str, link: str) -> None:
    """A question links to a page of the site, and to a heading of it if the link has an anchor."""
    path, _, anchor = link.partition("#")
    page = (PAGE.parent / path).resolve()
    assert page.is_file(), question
    assert not anchor or anchor in anchors(page), question


@pytest.mark.parametrize(("words", "answer"), WORDS.items())
def test_a_question_leads_to_its_answer(words: str, answer: str) -> None:
    """A question with these words leads to a page, or a section, that contains its answer."""
    targets = [link for question, link in ROWS if words.casefold() in question.casefold()]
    assert targets, f"no question has the words {words!r}"
    answers = [" ".join(section_of(link).split()) for link in targets]
    assert any(answer in text for text in answers), f"{targets} do not contain {answer!r}"


def section_of(link: str) -> str:
    """Return the text of a page, or of a section with its subsections."""
    path, _, anchor = link.partition("#")
    page = (PAGE.parent / path).resolve()
    text = page.read_text()
    if not anchor:
        return text
    headings = [match for match in re.finditer(r"^(#+) (.+)$", text, re.MULTILINE) if slug(match[2]) == anchor]
    start = headings[0]
    end = re.compile(rf"^#{{1,{len(start[1])}}} ", re.MULTILINE).search(text, start.end())
    return text[start.start() : end.start() if end else None]
