"""Laws of the authorizer library in expressions."""

from __future__ import annotations

import pytest

from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.expressions.authorizer import AUTHORIZER, RESOURCE_CHECK, AuthorizerValue, ResourceCheck
from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.cel.errors import CelEvaluationError

ENVIRONMENT = kubernetes_environment().extend(
    variables={"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
)
ALICE = User(name="alice")


def ask(text: str) -> tuple[object, list[AuthorizerAttributes]]:
    """Return the value of an expression, and the attributes that the authorizer got."""
    questions: list[AuthorizerAttributes] = []

    def decide(attributes: AuthorizerAttributes) -> Decision:
        questions.append(attributes)
        return Decision(attributes.verb == "get", "because")

    own = AuthorizerAttributes(user=ALICE, verb="update", resource="pods", namespace="ns", name="p")
    variables = {
        "authorizer": AuthorizerValue.of(decide, ALICE),
        "authorizer.requestResource": ResourceCheck.of(decide, own),
    }
    return ENVIRONMENT.compile(text).evaluate(variables), questions


def test_questions_are_put_together() -> None:
    """Authorizer calls are chained: each step adds an attribute, and check() adds the verb."""
    check = "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('d')"
    allowed, (questions,) = ask(f"{check}.check('get').allowed()")
    assert allowed is True
    assert (
        questions.group,
        questions.resource,
        questions.subresource,
        questions.namespace,
        questions.name,
        questions.verb,
    ) == (("apps", "deployments", "scale", "n", "d", "get"))
    assert questions.user == ALICE
    assert questions.resource_request


def test_paths_service_accounts_and_selectors() -> None:
    """The authorizer checks paths, service accounts and requests with selectors."""
    _, (path,) = ask("authorizer.path('/healthz').check('get').allowed()")
    assert (path.path, path.resource_request) == ("/healthz", False)
    _, (account,) = ask("authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('list').allowed()")
    assert account.user.name == "system:serviceaccount:ns:sa"
    _, (selected,) = ask(
        "authorizer.group('').resource('pods').labelSelector('a=b').fieldSelector('x=y').check('list').reason() == ''"
    )
    assert (selected.label_selector, selected.field_selector) == ("a=b", "x=y")


def test_the_request_itself() -> None:
    """``authorizer.requestResource`` is a variable of its own."""
    denied, (questions,) = ask("authorizer.requestResource.check('delete').allowed()")
    assert denied is False
    assert (questions.resource, questions.name, questions.verb) == ("pods", "p", "delete")


@pytest.mark.parametrize("text", ["authorizer.path('x').check('get')", "authorizer.serviceAccount('N', 'a')"])
def test_senseless_questions_fail(text: str) -> None:
    """Relative paths and invalid names are errors of the authorizer library."""
    with pytest.raises(CelEvaluationError):
        ask(text)


def test_asking_is_dear() -> None:
    """An expression can afford two authorizer checks, but not three."""
    check = "authorizer.path('/x').check('get').allowed()"
    two, three = (" && ".join([check] * times) for times in (2, 3))
    variables = {"authorizer": AuthorizerValue.of(lambda _: Decision(True), ALICE)}
    assert ENVIRONMENT.compile(two).run(variables, limit=1_000_000).value is True
    assert ENVIRONMENT.compile(three).run(variables, limit=1_000_000).error is not None
    assert ENVIRONMENT.compile(two).estimate(lambda _: None).most > 700_000
