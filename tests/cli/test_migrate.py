"""``opsdk migrate kopf``: what it writes, and that it reports everything."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import envtest
from opsdk import Cluster, ObjectMeta, Operator, UsageError
from opsdk.api.core.v1 import Namespace, ServiceAccount
from opsdk.cli.app import app
from opsdk.cli.migrate.equality import compare_runs
from opsdk.cli.migrate.kinds import definitions_in, kinds_of_definitions, parse_selector, resolve
from opsdk.cli.migrate.kopf import migrate_sources
from opsdk.cli.migrate.model import HandlerKind, KindName, Migration, MigrationVerdict, ResourceSelector
from opsdk.cli.migrate.programs import _has_request_of_program

SITES = Path(__file__).parents[1] / "compat" / "kopf_operators" / "sites"
SITE = KindName(
    group="x.test", version="v1", kind="Site", plural="sites", names=frozenset({"sites", "site", "Site", "st"})
)
RESOURCE = '"x.test", "v1", "sites"'


def migrate(text: str, **others: str) -> Migration:
    """Migrate one file, or several."""
    files = {"main.py": text, **{f"{name}.py": source for name, source in others.items()}}
    return migrate_sources(files, [SITE], name="sites")


def code(text: str) -> str:
    """Return the new text of one file."""
    return migrate(f"import kopf\n{text}").files["main.py"]


def load(text: str, folder: Path) -> ModuleType:
    """Import a text as a module."""
    path = folder / "migrated_main.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("migrated_main", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reported(migration: Migration, verdict: MigrationVerdict) -> list[str]:
    """Return what has a verdict."""
    return [finding.what for finding in migration.findings if finding.verdict is verdict]


# ------------------------------------------------------------------ properties
_KINDS = st.sampled_from(list(HandlerKind))
_PARAMETERS = st.lists(
    st.sampled_from(
        [
            "spec",
            "status",
            "meta",
            "body",
            "name",
            "namespace",
            "uid",
            "labels",
            "annotations",
            "logger",
            "memo",
            "patch",
            "retry",
        ]
    ),
    unique=True,
    max_size=5,
)
_OPTIONS = st.lists(
    st.sampled_from(
        [
            'id="other"',
            'labels={"a": kopf.PRESENT}',
            "annotations={'b': 'c'}",
            "when=lambda spec, **_: bool(spec)",
            "retries=3",
            "timeout=60",
            "backoff=5",
            "errors=kopf.ErrorsMode.PERMANENT",
            "param=LIMIT",
            "unknown_option=1",
        ]
    ),
    unique=True,
    max_size=4,
)


def decorator(kind: HandlerKind, options: list[str]) -> str:
    """Return the decorator of a handler."""
    activities = (HandlerKind.STARTUP, HandlerKind.CLEANUP, HandlerKind.LOGIN, HandlerKind.PROBE)
    arguments = [] if kind in activities else [RESOURCE]
    if kind is HandlerKind.FIELD:
        options = [*options, 'field="spec.size"']
    if kind is HandlerKind.TIMER:
        options = [*options, "interval=60"]
    if kind is HandlerKind.SUBHANDLER:
        arguments = []
    return f"@kopf.{kind.value}({', '.join([*arguments, *options])})"


@st.composite
def operators(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw the source of an operator, and its handlers as the report names them."""
    blocks, names = ["import kopf", "LIMIT = 5"], []
    for number in range(draw(st.integers(1, 5))):
        kind, options, parameters = draw(_KINDS), draw(_OPTIONS), draw(_PARAMETERS)
        keyword = draw(st.sampled_from(["def", "async def"]))
        rest = draw(st.sampled_from(["**_", "**kwargs"]))
        body = draw(st.sampled_from(["pass", "print(kwargs)" if rest == "**kwargs" else "pass", "kopf.unknown()"]))
        signature = ", ".join([*parameters, rest])
        blocks.append(f"{decorator(kind, options)}\n{keyword} handler_{number}({signature}):\n    {body}")
        names.append(f"@kopf.{kind.value} handler_{number}")
    return "\n\n\n".join(blocks) + "\n", names


@pytest.mark.slow
@settings(max_examples=20)
@given(operators())
def test_every_handler_is_reported_and_the_output_imports(operator: tuple[str, list[str]]) -> None:
    """Each decorator has a line in the report; the result parses, runs, and is equal when it is written again."""
    text, names = operator
    migration = migrate(text)
    whats = [finding.what for finding in migration.findings]
    assert all(name in whats for name in names)
    assert migration.handlers == len(names)
    written = migration.files["main.py"]
    assert not re.search(
        r"^\s*(import|from) kopf|@kopf\.(?!.*TODO)", written.replace("# TODO(migrate): @kopf", ""), re.MULTILINE
    )
    namespace: dict[str, object] = {"__name__": "migrated"}
    exec(compile(ast.parse(written), "main.py", "exec"), namespace)
    assert any(isinstance(value, Operator) for value in namespace.values())
    assert migrate(text) == migration


@pytest.mark.slow
@settings(max_examples=20)
@given(operators())
def test_what_is_not_migrated_is_named_in_the_code(operator: tuple[str, list[str]]) -> None:
    """A handler by hand leaves a TODO; an unknown name raises NotImplementedError at its place."""
    text, _ = operator
    migration = migrate(text)
    written = migration.files["main.py"]
    for finding in migration.findings:
        if (
            finding.verdict is MigrationVerdict.BY_HAND
            and finding.what.startswith("@kopf.")
            and "called" not in finding.became
        ):
            assert f"# TODO(migrate): {finding.what.split()[0]}" in written
    assert written.count('not_migrated("kopf.unknown")') == text.count("kopf.unknown()")


# ------------------------------------------------------------------ the source
def test_formatting_and_comments_stay() -> None:
    """Only decorators and names of kopf change; the rest of a function stays byte by byte."""
    body = "def make(spec,  name, **_):\n    x = {  'a':1 }   # odd\n\n    return  x\n"
    assert body in code(f"# why\n@kopf.on.create({RESOURCE})  # here\n{body}")


def test_names_are_translated_however_they_are_imported() -> None:
    """Aliases and single imports of kopf have the same counterparts."""
    text = f"""import kopf as k
from kopf import PermanentError as PE, on

@on.create({RESOURCE})
def make(spec: k.Spec, **_) -> None:
    k.info({{}}, reason="R", message="m")
    raise PE("no") if spec else k.TemporaryError("wait", 5)
"""
    written = migrate(text).files["main.py"]
    assert 'kopf_handlers.post_event({}, reason="R", message="m", type="Normal")' in written
    assert 'raise opsdk.TerminalError("no") if spec else opsdk.TemporaryError("wait", delay=5)' in written
    assert "spec: dict" in written


def test_stacked_decorators_become_one_condition() -> None:
    """A function for several causes is called once for any of them."""
    written = code(f"@kopf.on.resume({RESOURCE})\n@kopf.on.create({RESOURCE})\ndef make(spec, **_): ...\n")
    assert "        if change.is_resume or change.is_create:\n" in written
    assert written.count("change.call(") == 1


def test_filters_and_options_are_taken_over() -> None:
    """Filters are conditions, bounds of retries are arguments of the call."""
    written = code(
        f'@kopf.on.update({RESOURCE}, field="spec.size", labels={{"a": kopf.ABSENT}}, retries=3,'
        " errors=kopf.ErrorsMode.PERMANENT, when=lambda **_: True)\n"
        "def resize(old, new, retry, param, **_): ...\n"
    )
    assert 'change.field("spec.size").is_changed' in written
    assert 'change.matches(labels={"a": kopf_handlers.ABSENT}, when=lambda **_: True)' in written
    assert 'errors="permanent"' in written
    assert "retries=3" in written
    assert 'old=change.field("spec.size").old' in written
    assert 'retry=change.retry("resize/spec.size")' in written


def test_a_name_that_the_body_assigns_is_not_its_kwargs() -> None:
    """A handler that assigns to ``_`` gets its own arguments only."""
    written = code(f"@kopf.on.create({RESOURCE})\ndef make(spec, **_):\n    for first, *_ in spec: print(first)\n")
    assert 'await change.call("make", make, spec=change.spec)' in written


def test_generated_lines_are_short() -> None:
    """Arguments that do not fit into a line have lines of their own."""
    names = "type, event, retry, started, runtime, first_long_argument, second_long_argument"
    written = code(f"@kopf.on.event({RESOURCE})\ndef observe({names}, **kwargs): print(kwargs)\n")
    assert max(map(len, written.splitlines())) <= 120
    assert '"type": call.type,' in written


def test_a_handler_with_an_unknown_argument_is_by_hand() -> None:
    """It cannot run until someone computes the argument."""
    migration = migrate(f"import kopf\n@kopf.on.event({RESOURCE})\ndef observe(by_name, by_size, **_): ...\n")
    finding = migration.findings[0]
    assert (finding.what, finding.verdict) == ("@kopf.on.event observe", MigrationVerdict.BY_HAND)
    assert "arguments by_name, by_size" in finding.became


def test_a_login_handler_is_not_needed() -> None:
    """The operator finds its credentials without a handler."""
    migration = migrate("import kopf\n@kopf.on.login()\ndef login(**kwargs): return kopf.login_via_pykube(**kwargs)\n")
    login, call = migration.findings
    assert (login.what, login.verdict) == ("@kopf.on.login login", MigrationVerdict.MIGRATED)
    assert "TODO" not in migration.files["main.py"]
    assert "delete the handler" in call.became


def test_a_handler_that_a_call_registers_is_named_with_what_to_write() -> None:
    """The command migrates decorators only."""
    migration = migrate(
        f"import kopf\ndef make(**_): ...\ndef register(): kopf.on.create({RESOURCE}, registry=R)(make)\n"
    )
    (finding,) = migration.findings
    assert finding.what == "kopf.on.create"
    assert "write @kopf.on.create(...) above the function" in finding.became


def test_settings_name_the_records() -> None:
    """The finalizer and the annotations of the settings are kept; other settings are reported with advice."""
    text = f"""import kopf
PREFIX = "shop.test"

@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.persistence.finalizer = f"{{PREFIX}}/done"
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, key="last")
    settings.batching.worker_limit = 5

@kopf.on.delete({RESOURCE})
def gone(**_): ...
"""
    migration = migrate(text)
    written = migration.files["main.py"]
    assert 'finalizers={"shop.test/done": finalize_site}' in written
    assert 'KopfKind(kopf_handlers.KopfNames(prefix="shop.test", key="last"))' in written
    assert "settings.batching.worker_limit" in reported(migration, MigrationVerdict.BY_HAND)
    assert "pass  # TODO(migrate): settings.batching.worker_limit = 5" in written


def test_a_timer_alone_keeps_the_finalizer() -> None:
    """Kopf adds its finalizer for daemons too, so the object must be released by the new operator."""
    written = code(f"@kopf.timer({RESOURCE}, interval=30, initial_delay=5, sharp=True)\ndef tick(**_): ...\n")
    assert 'finalizers={"kopf.zalando.org/KopfFinalizerMarker": finalize_site}' in written
    assert 'DaemonSpec(function=run_tick, name="tick", every=30)' in written
    assert 'await call.delay_first("tick", 5)' in written
    assert "# TODO(migrate): sharp=True" in written


def test_generated_names_avoid_those_of_the_module() -> None:
    """A module with a name such as operator keeps it."""
    written = code(f"import operator\nSITE = 1\n\n@kopf.on.create({RESOURCE})\ndef make(**_): ...\n")
    assert "operator_ = opsdk.Operator" in written
    assert "SITE_ = opsdk.Kind(opsdk.GroupVersionKind.parse(" in written


def test_a_folder_gets_a_module_with_the_reconcilers(tmp_path: Path) -> None:
    """Handlers of several files are called from one operator; options refer to the names of their module."""
    head = "import kopf\nfrom consts import GROUP\nWAIT = 5\n\n"
    first = f"{head}@kopf.on.create(GROUP, 'v1', 'sites', backoff=WAIT)\ndef make(**_): ...\n"
    second = f"import kopf\n\n@kopf.on.delete({RESOURCE})\nasync def gone(**_): ...\n"
    migration = migrate(first, consts='GROUP = "x.test"\n', other=second)
    assert migration.entry == "reconcilers.py"
    written = migration.files["reconcilers.py"]
    assert 'await change.call("make", main.make, backoff=main.WAIT)' in written
    assert 'await change.call("gone", other.gone)' in written
    assert not reported(migration, MigrationVerdict.BY_HAND)


def test_imports_of_a_folder_are_in_order() -> None:
    """The standard library comes first, then opsdk, then the operator's modules, without needless aliases."""
    hook = "@kopf.on.startup()\ndef begin(logger, **_): ...\n"
    written = migrate(f"import kopf\n{hook}", other="import kopf\n").files["reconcilers.py"]
    lines = [line for line in written.splitlines() if line.startswith(("import ", "from "))]
    assert lines == [
        "from __future__ import annotations",
        "import logging",
        "from collections.abc import AsyncIterator",
        "import opsdk",
        "from opsdk.aio.blocking import blocking",
        "from opsdk.migration import kopf_handlers",
        "import main",
    ]


def test_two_timers_with_one_id_have_names_of_their_own(tmp_path: Path) -> None:
    """Daemons of one reconciler have different names. kopf runs only the first: the report says so."""
    timers = [f"@kopf.timer({RESOURCE}, id='a', interval=60)\ndef f{number}(**_): ...\n" for number in range(2)]
    migration = migrate("\n".join(["import kopf", *timers]))
    load(migration.files["main.py"], tmp_path)
    assert "id of @kopf.timer f1" in reported(migration, MigrationVerdict.CHECK)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("class A:\n    @kopf.on.create('pods')\n    def make(self, **_): ...\n", "@kopf.on.create make"),
        ("@kopf.on.create(compute())\ndef make(**_): ...\n", "@kopf.on.create make"),
        ("@kopf.on.create('gadgets')\ndef make(**_): ...\n", "@kopf.on.create make"),
        ("@kopf.on.create(category='all')\ndef make(**_): ...\n", "@kopf.on.create make"),
        ("@kopf.on.create('pods')\ndef make(sizes, **_): ...\n", "@kopf.on.create make"),
        ("kopf.configure(verbose=True)\n", "kopf.configure"),
        ("class A(kopf.ProgressStorage): ...\n", "kopf.ProgressStorage"),
        ("x = kopf.unknown\n", "kopf.unknown"),
        ("@kopf.unknown\ndef f(): ...\n", "@kopf.unknown"),
        ("def f(x=kopf.unknown): ...\n", "kopf.unknown"),
    ],
)
def test_what_cannot_be_turned_is_by_hand(text: str, what: str, tmp_path: Path) -> None:
    """It is in the report with its line, and the rest can still be imported."""
    text = f"import kopf\ndef compute(): return 'pods'\n\n{text}\n@kopf.on.create('pods')\ndef fine(**_): ...\n"
    migration = migrate(text)
    (finding,) = [each for each in migration.findings if each.verdict is MigrationVerdict.BY_HAND]
    assert finding.what == what
    assert finding.line > 3
    load(migration.files["main.py"], tmp_path)


def test_a_nested_handler_raises_at_its_place(tmp_path: Path) -> None:
    """A handler that another one registers would be lost without a trace."""
    text = "import kopf\n\n@kopf.on.create('pods')\ndef make(**_):\n    @kopf.subhandler()\n    def part(**_): ...\n"
    module = load(migrate(text).files["main.py"], tmp_path)
    with pytest.raises(NotImplementedError, match=r"kopf\.subhandler"):
        module.make()


# ------------------------------------------------------------------ kinds
@pytest.mark.parametrize(
    ("words", "keywords", "selector"),
    [
        (["a.b", "v1", "sites"], {}, ResourceSelector(group="a.b", version="v1", name="sites")),
        (["a.b/v1", "sites"], {}, ResourceSelector(group="a.b", version="v1", name="sites")),
        (["v1", "pods"], {}, ResourceSelector(group="", version="v1", name="pods")),
        (["sites"], {}, ResourceSelector(name="sites")),
        (["sites.a.b"], {}, ResourceSelector(group="a.b", name="sites")),
        (["sites.v1.a.b"], {}, ResourceSelector(group="a.b", version="v1", name="sites")),
        ([], {"group": "a.b", "kind": "Site"}, ResourceSelector(group="a.b", name="Site")),
    ],
)
def test_selectors_have_the_forms_of_kopf(
    words: list[str], keywords: dict[str, str], selector: ResourceSelector
) -> None:
    """Group, version and name are positional, joined, or keywords."""
    assert parse_selector(words, keywords) == selector


def test_kinds_come_from_definitions_then_from_the_built_in_ones() -> None:
    """A definition has the names; a kind without one is guessed only with group and version."""
    names = {"plural": "geese", "singular": "goose", "kind": "Goose", "shortNames": ["gs"]}
    versions = [{"name": "v1"}, {"name": "v2", "storage": True}]
    kinds = kinds_of_definitions([{"spec": {"group": "x.test", "names": names, "versions": versions}}])
    for name in ("geese", "goose", "Goose", "gs"):
        assert resolve(ResourceSelector(name=name), kinds) == kinds[0]
    assert kinds[0].version == "v2"
    deployment = resolve(ResourceSelector(name="deployments"), [])
    assert deployment is not None
    assert (deployment.api_version, deployment.kind) == ("apps/v1", "Deployment")
    assert resolve(ResourceSelector(name="policies"), []) is None
    guessed = resolve(ResourceSelector(group="x.test", version="v1", name="policies"), [])
    assert guessed is not None
    assert (guessed.kind, guessed.is_guessed) == ("Policy", True)


# ------------------------------------------------------------------ the command
@pytest.mark.slow
def test_the_command_writes_a_folder_once(tmp_path: Path) -> None:
    """A second run writes the same bytes; an edited file is kept unless the user forces it."""
    arguments = ["migrate", "kopf", str(SITES / "sites_operator.py"), "--output", str(tmp_path), "--no-start"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert "handlers: 9, kinds: 1, migrated: 10, to check: 1, by hand: 2" in first.output
    written = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.name for path in written} == {"MIGRATION.md", "sites_operator.py"}
    report = written[tmp_path / "MIGRATION.md"].decode()
    assert "| sites_operator.py:42 | @kopf.on.create create_deployment |" in report
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == written
    (tmp_path / "MIGRATION.md").write_text("mine")
    edited = CliRunner().invoke(app, arguments)
    assert isinstance(edited.exception, UsageError)
    assert "--force" in str(edited.exception)
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E9,F63,F7,F82", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(kopf:\n", r"main.py:1"),
        ("import kopf\n\0", "main.py"),
        ("x = 1\n", "no file of .* has a handler"),
        ("# kopf\n", "no file of"),
    ],
)
def test_bad_sources_are_named(text: str, message: str) -> None:
    """A file that does not parse, or without handlers, is an error with what to do."""
    with pytest.raises(UsageError, match=message):
        migrate(text)


def test_files_that_are_no_definitions_are_skipped(tmp_path: Path) -> None:
    """Templates, dates that do not exist and binary files are beside many operators."""
    names = {"plural": "sites", "kind": "Site"}
    definition = {"kind": "CustomResourceDefinition", "metadata": {"name": "sites.x.test"}, "spec": {"names": names}}
    texts = {"a.yaml": "{{ .Values.x }", "b.yaml": "at: 2024-13-45", "c.json": "[1]", "d.yml": json.dumps(definition)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "e.yaml").write_bytes(b"\xff\x00")
    assert list(definitions_in(tmp_path.iterdir())) == [definition]


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    """The error says what to name."""
    outcome = CliRunner().invoke(app, ["migrate", "kopf", str(tmp_path / "none.py")])
    assert isinstance(outcome.exception, UsageError)


# ------------------------------------------------------------------ the start
HANDLER = f"@kopf.on.delete({RESOURCE})\ndef gone(spec, **_): ...\n"
DOMAINLESS = """
@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "sites-finalizer"
"""


def test_requests_of_simulated_controllers_are_none_of_the_program() -> None:
    """A program that fails late has not started when kube-controller-manager sends something."""

    async def run() -> None:
        async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
            await cluster.uncached.create(Namespace(metadata=ObjectMeta(name="new")))
            await env.eventually(lambda: cluster.uncached.get(ServiceAccount, "new/default"), within=30.0)
            audit = [event for event in env.audit if event.user.name == "system:kube-controller-manager"]
            assert audit
            assert not _has_request_of_program(audit)
            assert _has_request_of_program(env.audit)

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "status", "became"),
    [
        (DOMAINLESS, 0, ""),
        ("LIMIT = undefined  # here\n", 1, "name 'undefined' is not defined"),
        ("@kopf.on.startup()\ndef begin(**_):\n    raise ValueError('no password')  # here\n", 1, "no password"),
        ("import not_installed_here  # here\n", 0, "not_installed_here is not installed here"),
    ],
)
def test_what_does_not_start_is_a_finding(tmp_path: Path, text: str, status: int, became: str) -> None:
    """The command starts what it wrote on an empty server. The finding has the line of the new file, and its reason."""
    (tmp_path / "main.py").write_text(f"import kopf\n{HANDLER}{text}")
    folder = tmp_path / "new"
    outcome = CliRunner().invoke(app, ["migrate", "kopf", str(tmp_path / "main.py"), "--output", str(folder)])
    assert outcome.exit_code == status, outcome.output
    start = [each for each in outcome.output.splitlines() if "start of the new operator" in each]
    assert [became in each for each in start] == ([True] if became else [])
    if became:
        lines = (folder / "main.py").read_text().splitlines()
        line = next(number for number, written in enumerate(lines, 1) if "# here" in written)
        assert start[0].startswith(f"main.py:{line}: ")
        assert became in (folder / "MIGRATION.md").read_text()


@pytest.mark.slow
def test_a_package_starts_by_the_printed_command(tmp_path: Path) -> None:
    """Its modules are found from the folder around it."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "consts.py").write_text(f"RESOURCE = ({RESOURCE})\n")
    (package / "handlers.py").write_text(f"import kopf\nfrom shop.consts import RESOURCE\n{HANDLER}")
    folder = tmp_path / "new folder"
    outcome = CliRunner().invoke(app, ["migrate", "kopf", str(package), "--output", str(folder)])
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.rstrip().endswith(f"then cd '{folder}' && opsdk run shop.reconcilers")


# ------------------------------------------------------------------ names of kopf
# Of kopf 1.45, and those that it had before 0.22.
PUBLIC = re.findall(
    r"\S+",
    """
    on lifecycles subhandler register execute daemon timer index configure LogFormat login_via_pykube
    login_via_client login_via_async_client login_with_kubeconfig login_with_service_account LoginError
    ConnectionInfo AiohttpSession event info warn exception spawn_tasks run_tasks operator run adopt label not_ all_
    any_ none_ get_default_lifecycle set_default_lifecycle build_object_reference build_owner_reference
    append_owner_reference remove_owner_reference ErrorsMode AdmissionError WebhookClientConfigService
    WebhookClientConfig Operation UserInfo Headers SSLPeer WebhookFn WebhookServerProtocol WebhookServer
    WebhookK3dServer WebhookMinikubeServer WebhookDockerDesktopServer WebhookNgrokTunnel WebhookAutoServer
    WebhookAutoTunnel PermanentError TemporaryError HandlerTimeoutError HandlerRetriesError OperatorRegistry
    get_default_registry set_default_registry PRESENT ABSENT OperatorSettings DiffBaseStorage
    AnnotationsDiffBaseStorage StatusDiffBaseStorage MultiDiffBaseStorage ProgressRecord ProgressStorage
    AnnotationsProgressStorage StatusProgressStorage MultiProgressStorage SmartProgressStorage RawEventType RawEvent
    RawBody Status Spec Meta Body BodyEssence Labels Annotations ObjectReference OwnerReference Memo Index Store
    Logger ObjectLogger LocalObjectLogger FieldSpec FieldPath Diff DiffItem DiffOperation HandlerId Reason Patch
    PatchFn DaemonStopped DaemonStoppingReason SyncDaemonStopperChecker AsyncDaemonStopperChecker Resource
    EVERYTHING harmonize_naming adjust_namespace HandlerFatalError HandlerRetryError cli.main
    """,
)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_name_of_kopf_is_translated_or_named(name: str, tmp_path: Path) -> None:
    """In every place where a name may stand, the new module imports; a call without a counterpart says what to do."""
    is_class = name[0].isupper() and not name.isupper()
    text = f"""import kopf
import kopf.cli
TOP = kopf.{name}

class Own({f"kopf.{name}" if is_class else ""}): ...

{HANDLER}
def helper(argument: kopf.{name} = None):
    try:
        return kopf.{name}
    except kopf.{name}:
        raise

@kopf.on.create({RESOURCE}, when=kopf.{name})
def make(**_): ...

if __name__ == "__main__":
    kopf.{name}()
"""
    migration = migrate(text)
    written = migration.files["main.py"]
    assert not re.search(r'(?<!")\bkopf\.', re.sub(r'#.*|not_migrated\(".*?"\)', "", written))
    assert "None()" not in written
    module = load(written, tmp_path)
    if f'return kopf_handlers.not_migrated("kopf.{name}")' in written:
        with pytest.raises(NotImplementedError, match=re.escape(f"kopf.{name}")):
            module.helper()
        by_hand = [each.what for each in migration.findings if each.verdict is MigrationVerdict.BY_HAND]
        assert f"kopf.{name}" in by_hand


def test_errors_of_old_releases_are_the_new_ones() -> None:
    """HandlerFatalError is PermanentError, and HandlerRetryError is TemporaryError with its delay."""
    written = code(
        f"@kopf.on.create({RESOURCE})\ndef make(spec, **_):\n"
        "    if spec: raise kopf.HandlerFatalError('no')\n    raise kopf.HandlerRetryError('later', 5)\n"
    )
    assert "raise opsdk.TerminalError('no')" in written
    assert "raise opsdk.TemporaryError('later', delay=5)" in written


# ------------------------------------------------------------------ states
def test_equal_states_differ_in_nothing_random() -> None:
    """Uids, times, addresses and generated names do not count; everything else does."""

    def state(uid: str, time: str, size: int) -> list[dict[str, object]]:
        meta = {"name": "a", "namespace": "n", "uid": uid, "creationTimestamp": time, "resourceVersion": uid[:3]}
        names = {"name": f"p-{uid[:5]}", "generateName": "p-", "namespace": "n"}
        pod: dict[str, object] = {"kind": "Pod", "metadata": names}
        return [{"kind": "Site", "metadata": meta, "spec": {"size": size}, "status": {"at": time, "of": uid}}, pod]

    first = state("6f1c0ab2-0000-4000-8000-00000000000a", "2026-01-01T00:00:00Z", 1)
    second = state("7f1c0ab2-0000-4000-8000-00000000000b", "2026-02-01T00:00:00.5Z", 1)
    assert compare_runs([first], [second]).differences == []
    changed = state("7f1c0ab2-0000-4000-8000-00000000000b", "2026-02-01T00:00:00.5Z", 2)
    assert compare_runs([first], [changed]).differences == ["Site n/a: spec.size: 1 -> 2"]
    assert compare_runs([first], [first[:1]]).differences == ["Pod n/p-*: only in the first state"]


def test_fields_in_which_two_runs_agree_do_not_count() -> None:
    """A race of the operator's own handlers is not a difference between two operators."""

    def state(phase: str, size: int) -> list[dict[str, object]]:
        return [{"kind": "Site", "metadata": {"name": "a"}, "spec": {"size": size}, "status": {"phase": phase}}]

    kopf, migrated = [state("Pending", 1)], [state("Running", 2)]
    both = compare_runs(kopf, migrated)
    assert both.differences == ["Site a: spec.size: 1 -> 2", "Site a: status.phase: 'Pending' -> 'Running'"]
    assert both.unstable == []
    again = compare_runs([*kopf, state("Running", 1)], migrated)
    assert again.differences == ["Site a: spec.size: 1 -> 2"]
    assert again.unstable == ["Site a: status.phase: 'Pending' -> 'Running'"]
    assert compare_runs([*kopf, []], migrated).differences == both.differences
    assert compare_runs(kopf, [*migrated, *kopf]).differences == []
