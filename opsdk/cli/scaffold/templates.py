"""Templates of a new project's files, see `string.Template` for ``$name``."""

from __future__ import annotations

from string import Template

PYPROJECT = Template("""[project]
name = "$name"
version = "0.1.0"
description = "A Kubernetes operator"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["opsdk[tls]"]

[project.optional-dependencies]
dev = ["opsdk[cli,envtest]", "mypy", "pytest", "ruff"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["$package"]

[tool.opsdk]
operator = "$package.operator:make_operator"
namespace = "$name-system"
image = "$name:latest"

[tool.pytest.ini_options]
addopts = ["-p", "opsdk.testing.plugin"]
testpaths = ["tests"]

[tool.mypy]
strict = true
packages = ["$package"]

[tool.ruff]
line-length = 120
lint.select = ["E", "F", "I", "B", "UP"]
""")

README = Template("""# $name

A Kubernetes operator in Python, built with opsdk.

    pip install -e '.[dev]'
    opsdk create api --group demo.example.com --version v1 --kind Widget
    opsdk dev           # a local API server, the CRDs, and the operator; reloads when a file changes
    kubectl --kubeconfig .opsdk/kubeconfig apply -f samples    # in another shell
    opsdk why default/example                                  # what the operator did, and why
    pytest              # tests in virtual time, against the same API server
    opsdk generate all  # CRDs, RBAC and the Deployment in config/

Set `image` in pyproject.toml, then install the operator with `opsdk deploy`, which waits until it works, or with
`kubectl apply -k config`.
""")

AGENTS = Template("""# $name

A Kubernetes operator in Python, built with opsdk: controller-runtime's concepts, with asyncio.

## Commands

| command | does |
| --- | --- |
| `pip install -e '.[dev]'` | installs the project with its tools |
| `pytest` | runs the tests: an API server in the process, virtual time, no cluster |
| `mypy` | checks types, in strict mode |
| `ruff check . && ruff format .` | checks and formats |
| `opsdk create api --group G --version V --kind K` | adds a kind, its reconciler, a test and an object in `samples/` |
| `opsdk create webhook --kind K` | adds a defaulter and a validator |
| `opsdk create policy --kind K` | adds an admission policy: rules in CEL that the API server runs |
| `opsdk create version --kind K --version V` | adds a version and its conversion |
| `opsdk update` | merges what a newer opsdk writes into these files; `.opsdk.json` is its record |
| `opsdk generate all` | writes CRDs, RBAC and the Deployment into `config/` |
| `opsdk dev --once --plain` | starts the operator on a local API server, and ends; without `--once` it stays |
| `opsdk why NAMESPACE/NAME` | prints what the operator of `opsdk dev` did for an object, and why |

Before a commit, `pytest`, `mypy` and `ruff check .` pass, and `opsdk generate all --check` finds no difference.

## Where things are

| path | what |
| --- | --- |
| `$package/operator.py` | `make_operator`; `opsdk create` adds a line for each kind |
| `$package/KIND.py` | the classes of a kind, its reconciler, and the permissions that it needs |
| `$package/KIND_webhook.py`, `$package/KIND_VERSION.py` | webhooks and versions of a kind |
| `$package/KIND_policy.py` | the admission policy of a kind |
| `tests/` | tests; `-p opsdk.testing.plugin` gives them `k8s_env` and `k8s_client` |
| `config/` | generated: change the classes instead, and generate again |
| `[tool.opsdk]` in `pyproject.toml` | image, namespace, and what the Deployment needs |

## Rules

- A reconciler describes the state that should exist. It may run at any time, twice, or after a restart: events merge.
- Keep no state between two runs. State belongs in the spec, the status, or a child.
- Write children with `ctx.apply`, with the fields that the operator decides and no others. Name their kinds in `owns=`.
- Derive the names of children from the owner's name: a random name makes a new child at each run.
- Write the status in `async with ctx.status(obj) as patch`. A time or a counter in it reconciles the object for ever.
- Let exceptions rise: opsdk retries with backoff. `Result(requeue_after=SECONDS)` looks again later.
- An `async def` must not block. A plain `def` runs in a thread.
- What is outside of the cluster needs a finalizer (`finalizers=`) or an `ExternalResource`.
- Declare each permission in `rbac=`; `assert_rules` of `opsdk.testing.rules` proves that they suffice.
- Test with `running(make_operator(), k8s_env)` and `eventually`. Sleeps take no time, because time is virtual.

## Documentation

`llms.txt` beside the start page of opsdk's documentation lists all pages, with a line for each.
`python -m pydoc opsdk.Operator` prints the reference of a name, and `opsdk dev --help` that of a command.
""")

GITIGNORE = Template("__pycache__/\n*.egg-info/\n.venv/\n.opsdk/\n.mypy_cache/\n.pytest_cache/\n.ruff_cache/\ndist/\n")

INIT = Template('"""The operator $name."""\n')

MAIN = Template('''"""Run the operator: ``python -m $package``; ``--help`` lists its flags."""

from $package.operator import make_operator

if __name__ == "__main__":
    make_operator().main()
''')

OPERATOR = Template('''"""The operator and its reconcilers."""

from opsdk import Operator


def make_operator() -> Operator:
    """Return a new operator. ``opsdk create api`` adds a line for each kind."""
    operator = Operator("$name")
    return operator
''')

SAMPLE = Template("""apiVersion: $group/$version
kind: $kind
metadata:
  name: example
spec:
  text: hello
""")

API = Template('''"""The $kind kind and its reconciler."""

from __future__ import annotations

from msgspec import field
from opsdk import Condition, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap
from opsdk.rbac.rules import applies, patches_status


class ${kind}Spec(Model, kw_only=True):
    """The desired state."""

    text: str = "hello"


class ${kind}Status(Model, kw_only=True):
    """The observed state."""

    conditions: list[Condition] = field(default_factory=list)


class $kind(Object[${kind}Spec, ${kind}Status]):
    """One $kind."""

    gvk = GroupVersionKind("$group", "$version", "$kind")$scope


async def reconcile($variable: $kind, ctx: Context) -> None:
    """Make the cluster match the spec. Runs again when the object or one of its children changes."""
    meta = ObjectMeta(name=$variable.metadata.name$child_namespace)
    await ctx.apply(ConfigMap(metadata=meta, data={"text": $variable.spec.text}))
    async with ctx.status($variable) as patch:
        patch.set_condition("Ready", True, "Reconciled")


def add_to(operator: Operator) -> None:
    """Declare the reconciler and its permissions."""
    operator.reconciler($kind, owns=[ConfigMap], rbac=[applies(ConfigMap), patches_status($kind)])(reconcile)
''')

TEST = Template('''"""The reconciler of $kind against an API server in this process, in virtual time."""

from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.testing.eventually import assert_condition, eventually
from opsdk.testing.rules import assert_rules, observed_rules
from opsdk.testing.running import running

$own_imports


async def test_a_${variable}_becomes_ready(k8s_env: Environment, k8s_client: Client) -> None:
    operator = make_operator()
    with observed_rules(operator) as observed:
        async with running(operator, k8s_env):
            await check_readiness(k8s_client)
    # The local server allows everything; a cluster allows what rbac= declares.
    assert_rules(observed, operator.rules())


async def check_readiness(k8s_client: Client) -> None:
    meta = ObjectMeta($meta)
    await k8s_client.create($kind(metadata=meta, spec=${kind}Spec(text="hi")))
    child = await eventually(lambda: k8s_client.get(ConfigMap, "default/a"))
    assert child.data == {"text": "hi"}

    async def is_ready() -> $kind:
        $variable = await k8s_client.get($kind, "$key")
        assert_condition($variable, "Ready")
        return $variable

    await eventually(is_ready)
''')

VERSION = Template('''"""$kind in $version, and its conversion. Objects are stored in $hub_version, the hub."""

from __future__ import annotations

from msgspec.structs import asdict
from opsdk import GroupVersionKind, Object, Operator
from opsdk.apimachinery.object import deep_copy
from opsdk.webhook.conversion import HubSpokeConverter, Spoke

from $package.$variable import $kind, ${kind}Spec, ${kind}Status


class ${spoke}Spec(${kind}Spec, kw_only=True):
    """The desired state in $version. Declare its own fields, and remove the base class, where it differs."""


class $spoke(Object[${spoke}Spec, ${kind}Status]):
    """One $kind in $version."""

    gvk = GroupVersionKind("$group", "$version", "$kind")$scope


def to_hub($variable: $spoke) -> $kind:
    """Return the object in $hub_version. What $hub_version cannot hold belongs in an annotation."""
    spec = ${kind}Spec(**asdict($variable.spec))
    return $kind(metadata=deep_copy($variable.metadata), spec=spec, status=$variable.status)


def from_hub($variable: $kind) -> $spoke:
    """Return the object in $version. What $version cannot hold belongs in an annotation."""
    spec = ${spoke}Spec(**asdict($variable.spec))
    return $spoke(metadata=deep_copy($variable.metadata), spec=spec, status=$variable.status)


CONVERTER = HubSpokeConverter($kind, Spoke($spoke, to_hub=to_hub, from_hub=from_hub))


def add_to(operator: Operator) -> None:
    """Serve the conversion webhook."""
    operator.webhook_for($kind).with_converter(CONVERTER)
''')

VERSION_TEST = Template('''"""Objects of $kind keep their fields on the way to $version and back."""

from opsdk import ObjectMeta
from opsdk.webhook.conversion import check_round_trip

from $package.$variable import $kind, ${kind}Spec
from $package.${variable}_$version import CONVERTER, $spoke, ${spoke}Spec


def test_nothing_is_lost_from_$hub_version() -> None:
    meta = ObjectMeta($meta)
    check_round_trip(CONVERTER, $kind(metadata=meta, spec=${kind}Spec($arguments)))


def test_nothing_is_lost_from_$version() -> None:
    meta = ObjectMeta($meta)
    check_round_trip(CONVERTER, $spoke(metadata=meta, spec=${spoke}Spec($arguments)))
''')

WEBHOOK = Template('''"""The webhooks of $kind. The functions need no server: tests call them."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk import Operator
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.admission import invalid_field
from opsdk.webhook.handlers import AdmissionContext

from $package.$variable import $kind


def set_defaults($variable: $kind, ctx: AdmissionContext) -> None:
    """Set defaults that the schema cannot express."""
    $variable.metadata.labels.setdefault("app.kubernetes.io/managed-by", "$name")


def validate($variable: $kind, ctx: AdmissionContext) -> Sequence[str]:
    """Reject objects by rules that the schema cannot express. Returns warnings."""
    name = $variable.metadata.name
    if len(name) > 40:
        cause = invalid_field("metadata.name", name, "must have at most 40 characters")
        raise AdmissionDeniedError(reason="Invalid", causes=[cause])
    return []


def validate_update(old: $kind, new: $kind, ctx: AdmissionContext) -> Sequence[str]:
    """Reject invalid updates, except while the object is being deleted: its finalizers must be removable."""
    return [] if new.metadata.deletion_timestamp else validate(new, ctx)


def add_to(operator: Operator) -> None:
    """Serve the webhooks."""
    webhooks = operator.webhook_for($kind).with_defaulter(set_defaults)
    webhooks.with_validator(create=validate, update=validate_update)
''')

WEBHOOK_TEST = Template('''"""The rules of $kind, without a server."""

import pytest
from opsdk import ObjectMeta
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.handlers import AdmissionContext

from $package.$variable import $kind, ${kind}Spec
from $package.${variable}_webhook import set_defaults, validate


def test_a_long_name_is_refused() -> None:
    meta = ObjectMeta(name="a" * 41$namespace)
    with pytest.raises(AdmissionDeniedError, match="metadata.name"):
        validate($kind(metadata=meta, spec=${kind}Spec($arguments)), AdmissionContext())


def test_the_label_is_a_default() -> None:
    $variable = $kind(metadata=ObjectMeta(name="a"$namespace), spec=${kind}Spec($arguments))
    set_defaults($variable, AdmissionContext())
    assert $variable.metadata.labels == {"app.kubernetes.io/managed-by": "$name"}
''')

POLICY = Template('''"""The admission policy of $kind. The API server runs it, and calls no webhook."""

from opsdk import Operator
from opsdk.webhook.policies import AdmissionRule, policy

from $package.$variable import $kind


@policy($kind)
class ${kind}Policy:
    """Rules that the schema cannot express."""

    rules = (
        AdmissionRule("size(object.metadata.name) <= 40", message="must have at most 40 characters"),
    )
    # Finalizers must be removable from objects that are being deleted.
    match_conditions = {"not-deleted": "!has(object.metadata.deletionTimestamp)"}


def add_to(operator: Operator) -> None:
    """Install the policy with the operator."""
    operator.add_policy(${kind}Policy)
''')

POLICY_TEST = Template('''"""The policy of $kind, on a local API server."""

import pytest
from envtest import Environment
from opsdk import Client, ObjectMeta
from opsdk.errors import InvalidError
from opsdk.testing.running import running

$own_imports


async def test_a_long_name_is_refused(k8s_env: Environment, k8s_client: Client) -> None:
    async with running(make_operator(), k8s_env):
        with pytest.raises(InvalidError, match="must have at most 40 characters"):
            meta = ObjectMeta(name="a" * 41$namespace)
            await k8s_client.create($kind(metadata=meta, spec=${kind}Spec($arguments)))
''')
