"""``opsdk migrate kopf``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from opsdk.base.extras import RequiredExtra
from opsdk.cli.migrate.equality import RunComparison, compare_runs
from opsdk.cli.migrate.kinds import definitions_in, kinds_of_definitions
from opsdk.cli.migrate.model import Migration, MigrationFinding, MigrationVerdict
from opsdk.cli.migrate.programs import PYTHON_VARIABLES, EndState, OperatorProgram, run_programs, start_program
from opsdk.cli.migrate.report import markdown_report, report_lines
from opsdk.cli.output import show_progress
from opsdk.cli.validate.built_in import can_validate
from opsdk.cli.validate.documents import read_files
from opsdk.engine.differences import Difference
from opsdk.engine.snapshot import write_snapshot
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_REPORT: Final = "MIGRATION.md"
_SKIPPED: Final = frozenset({"venv", "node_modules", "site-packages", "build", "dist", "tests", "test"})
_PLAN_SECONDS: Final = "900"
_START_SECONDS: Final = 30.0
"""Until the first request of the new operator. Startup handlers may wait for other programs."""
_RUNS: Final = 3
"""Runs of each operator from scratch, while they differ."""
_NO_ADDRESS: Final = "127.0.0.1:1"
_NO_SERVER: Final = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: plan, cluster: {{server: "https://{_NO_ADDRESS}"}}}}]
users: [{{name: plan, user: {{}}}}]
contexts: [{{name: plan, context: {{cluster: plan, user: plan}}}}]
current-context: plan
"""
"""For clients of handlers, which must not reach a cluster while the plan runs."""


def kopf(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="file or folder of the kopf operator")],
    *,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="folder to write; default: NAME-opsdk in the current folder")
    ] = None,
    name: Annotated[str, typer.Option(help="name of the new operator; default: that of the folder or file")] = "",
    crd: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="CustomResourceDefinitions outside of PATH")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite edited files")] = False,
    examples: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="run both operators with these objects, and compare what they do"),
    ] = None,
    kopf_command: Annotated[
        str,
        typer.Option("--kopf", metavar="COMMAND", help="runs the kopf operator; default: kopf run -A FILE"),
    ] = "",
    quiet: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="a run ends after this time without a write")
    ] = 10,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=5, help="a run ends after this time in any case")
    ] = 120,
    start: Annotated[
        bool, typer.Option("--start/--no-start", help="start the new operator once, on an empty local API server")
    ] = True,
) -> None:
    """Turn a kopf operator into an opsdk operator. Writes a new folder; the original stays as it is.

    Handlers become plain functions, and each kind gets a reconciler that calls them. MIGRATION.md in the new folder
    lists each handler with its result, and what is left to do by hand. The new operator is started once on an empty
    local API server, with its startup handlers; if it does not start, the exit status is 1.

    With --examples, both operators run on a local API server with these objects. Exits with status 1 if the new
    operator changes what kopf made, if it makes something else, or if kopf writes nothing.

    opsdk migrate kopf handlers.py

    opsdk migrate kopf src/shop --crd deploy/crd.yaml --output shop-opsdk --examples examples/
    """
    source = _Source.read(path, name)
    definitions = _all_definitions(source, crd or ())
    migration = _migrate(source, definitions)
    folder = output if output is not None else Path(f"{source.name}-opsdk")
    _write_code(folder, source, migration, force=force)
    failure = _start_failure(source, folder, migration, definitions) if start else None
    if failure is not None:
        migration = replace(migration, findings=[*migration.findings, failure])
    _write({folder / _REPORT: markdown_report(migration, name=source.name)}, force=force)
    print("\n".join(report_lines(migration)))
    print(f"wrote {folder}: read {folder / _REPORT}, then {_run_command(source, folder, migration)}")
    if failure is not None and failure.verdict is MigrationVerdict.BY_HAND:
        raise typer.Exit(1)
    if examples is not None:
        objects = [document.tree for document in read_files(examples)]
        proof = _Proof(source, folder, migration, definitions, kopf_command)
        if not proof.run(objects, quiet=quiet, limit=limit):
            raise typer.Exit(1)


# ------------------------------------------------------------------ sources
@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The kopf operator.

    Attributes:
        folder: of its files.
        name: of the new operator.
        package: the name of the folder if it is a package; empty for files.
        files: text by path, relative to the folder.
        others: other files of a folder, such as templates, which are copied.
    """

    folder: Path
    name: str
    package: str
    files: Mapping[str, str]
    others: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path, name: str) -> _Source:
        """Read a file, or the Python files of a folder. Raises `UsageError`."""
        if not path.exists():
            raise UsageError(f"{path} does not exist: name the file or folder of the kopf operator")
        folder = (path if path.is_dir() else path.parent).absolute()
        paths = sorted(_files_in(folder)) if path.is_dir() else [path.absolute()]
        files = {str(each.relative_to(folder)): _text(each) for each in paths if each.suffix == ".py"}
        others = [str(each.relative_to(folder)) for each in paths if each.suffix != ".py"]
        package = folder.name if path.is_dir() and "__init__.py" in files else ""
        words = re.sub(r"[^a-z0-9]+", "-", (name or (folder.name if path.is_dir() else path.stem)).lower())
        return cls(folder=folder, name=words.strip("-") or "operator", package=package, files=files, others=others)

    def has_module(self, name: str) -> bool:
        """Whether the operator has a module or package of this name, or the new one needs it."""
        own = {Path(file).parts[0].removesuffix(".py") for file in self.files}
        return name in own | {self.package, "reconcilers", "opsdk", "kopf"}

    def target(self, folder: Path) -> Path:
        """Return the folder of the new files."""
        return folder / self.package if self.package else folder


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, without tests, environments, and what earlier runs have left."""
    for each in folder.rglob("*"):
        parts = each.relative_to(folder).parts
        if each.is_file() and not any(part.startswith((".", "__py")) or part in _SKIPPED for part in parts[:-1]):
            yield each


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _all_definitions(source: _Source, crd: Sequence[Path]) -> list[JsonObject]:
    """Return the definitions beside the operator, and those of `crd`, which count first."""
    show_progress(f"reading {len(source.others)} other files of {source.name}")
    beside = {tree["metadata"]["name"]: tree for tree in definitions_in(_files_in(source.folder))}
    passed = {tree["metadata"]["name"]: tree for tree in _definitions_of(crd)}
    return list({**beside, **passed}.values())


def _definitions_of(files: Sequence[Path]) -> list[JsonObject]:
    return [document.tree for document in read_files(files) if document.tree["kind"] == "CustomResourceDefinition"]


def _migrate(source: _Source, definitions: Sequence[JsonObject]) -> Migration:
    with RequiredExtra("migrate", "opsdk migrate kopf"):
        from opsdk.cli.migrate.kopf import migrate_sources  # noqa: PLC0415 - needs an extra
    kinds = kinds_of_definitions(definitions)
    migration = migrate_sources(
        source.files,
        kinds,
        name=source.name,
        package=source.package,
        progress=lambda file: show_progress(f"migrating {file}"),
    )
    show_progress("")
    return migration


# ------------------------------------------------------------------ the start
def _reference(source: _Source, migration: Migration) -> str:
    """Return how ``opsdk run`` names the operator in its new folder."""
    return f"{source.package}.{Path(migration.entry).stem}" if source.package else migration.entry


def _run_command(source: _Source, folder: Path, migration: Migration) -> str:
    """Return the command that runs the operator; the modules of a package are found from the folder around it."""
    if source.package:
        return f"cd {shlex.quote(str(folder))} && opsdk run {_reference(source, migration)}"
    return f"opsdk run {shlex.quote(str(folder / migration.entry))}"


def _migrated_program(source: _Source, folder: Path, migration: Migration) -> OperatorProgram:
    command = [sys.executable, "-m", "opsdk.cli", "run", _reference(source, migration)]
    return OperatorProgram(name="the migrated operator", command=command, folder=folder.absolute())


def _start_failure(
    source: _Source, folder: Path, migration: Migration, definitions: Sequence[JsonObject]
) -> MigrationFinding | None:
    """Start the new operator on an empty server; return why it ended by itself, or None."""
    if not can_validate():
        print("the new operator was not started: pip install 'opsdk[envtest]'", file=sys.stderr)
        return None
    show_progress("starting the new operator on an empty local API server")
    program = _migrated_program(source, folder, migration)
    output = asyncio.run(start_program(program, definitions, limit=_START_SECONDS))
    show_progress("")
    if not output:
        return None
    file, line = place_in(output, source.target(folder).absolute())
    missing = re.search(r"No module named '(\w+)", output)
    verdict, became = MigrationVerdict.BY_HAND, f"it ends by itself: {output.strip().splitlines()[-1]}"
    if missing is not None and not source.has_module(missing[1]):
        verdict, became = (
            MigrationVerdict.CHECK,
            f"not started: {missing[1]} is not installed here, start it elsewhere",
        )
    return MigrationFinding(
        file=file or migration.entry, line=line or 1, what="start of the new operator", verdict=verdict, became=became
    )


def place_in(output: str, folder: Path) -> tuple[str, int]:
    r"""Return the last file of a folder that a traceback or a message names, and the line; ``("", 0)`` if none.

    >>> place_in('File "/new/main.py", line 3, in f\nFile "/lib/x.py", line 7, in g\nKeyError: 1', Path("/new"))
    ('main.py', 3)
    >>> place_in("opsdk: main.py:5: NameError: name 'x' is not defined", Path("/new"))
    ('main.py', 5)
    """
    place = ("", 0)
    for match in re.finditer(r"""(?:File "([^"]+)", line (\d+))|(?<![^\s:'"])([^\s:'"]++)(?<=\.py):(\d+)""", output):
        path = folder / (match[1] or match[3])
        if path.is_relative_to(folder):
            place = (str(path.relative_to(folder)), int(match[2] or match[4]))
    return place


# ------------------------------------------------------------------ the new folder
def _write_code(folder: Path, source: _Source, migration: Migration, *, force: bool) -> None:
    """Write the new files, and copy the others. Raises `UsageError` if one of them was edited."""
    target = source.target(folder)
    _write({target / file: text for file, text in {**source.files, **migration.files}.items()}, force=force)
    for file in source.others:
        copied = target / file
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.folder / file, copied)


def _write(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write files. Raises `UsageError` if one of them was edited."""
    edited = [path for path, text in texts.items() if path.exists() and _text(path) != text]
    if edited and not force:
        raise UsageError(f"{edited[0]} exists with different text: pass another --output, or --force to overwrite it")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# ------------------------------------------------------------------ the proof
class _Proof:
    """Runs both operators with examples, and compares what they leave behind."""

    def __init__(
        self,
        source: _Source,
        folder: Path,
        migration: Migration,
        definitions: Sequence[JsonObject],
        command: str,
    ) -> None:
        self._definitions = definitions
        self._times: dict[str, float] = {}
        self._entry = _reference(source, migration)
        self._folder = folder.absolute()
        self._kopf = OperatorProgram(
            name="the kopf operator", command=_kopf_command(source, command), folder=source.folder
        )
        self._migrated = _migrated_program(source, folder, migration)

    def run(self, objects: Sequence[JsonObject], *, quiet: float, limit: float) -> bool:
        """Print the comparison; return whether both operators do the same."""
        try:
            return self._compare_all(objects, quiet=quiet, limit=limit)
        finally:
            show_progress("")

    def _compare_all(self, objects: Sequence[JsonObject], *, quiet: float, limit: float) -> bool:
        self._times = {"quiet": quiet, "limit": limit}
        kopf_end, takeover = self._run_all([self._kopf, self._migrated], objects)
        (fresh,) = self._run_all([self._migrated], objects)
        show_progress("planning the new operator for what kopf left behind")
        plan = self._plan(kopf_end)
        show_progress("")
        results = [
            _print_plan(plan),
            _print("after the new operator took over", _compare([kopf_end], [takeover])),
            _print("kopf and the new operator from scratch", self._compare_from_scratch(kopf_end, fresh, objects)),
        ]
        for program, state in (("kopf", kopf_end), ("the new operator", takeover), ("the new operator", fresh)):
            if not state.is_quiet:
                print(f"{program} was still writing at the limit: it has a timer, or a handler that is retried")
        if not kopf_end.written:
            print(f"kopf wrote nothing, so these examples prove nothing. Its last lines:\n{kopf_end.output}")
        return all(results) and kopf_end.written > 0

    def _run_all(self, programs: Sequence[OperatorProgram], objects: Sequence[JsonObject]) -> Sequence[EndState]:
        show_progress(f"running {', then '.join(program.name for program in programs)} with {len(objects)} objects")
        return asyncio.run(run_programs(programs, self._definitions, objects, **self._times))

    def _compare_from_scratch(
        self, kopf_end: EndState, fresh: EndState, objects: Sequence[JsonObject]
    ) -> RunComparison:
        """Compare runs on empty servers. If they differ, run both again, to tell races of the handlers from defects."""
        print(f"objects written from scratch: kopf {kopf_end.written}, the new operator {fresh.written}")
        kopf_ends, fresh_ends = [kopf_end], [fresh]
        comparison = _compare(kopf_ends, fresh_ends)
        while comparison.differences and len(kopf_ends) < _RUNS:
            kopf_ends += self._run_all([self._kopf], objects)
            fresh_ends += self._run_all([self._migrated], objects)
            comparison = _compare(kopf_ends, fresh_ends)
        return comparison

    def _plan(self, state: EndState) -> Any:
        """Plan the migrated operator for a snapshot, in a process of its own."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "kopf.snapshot.gz")
            file.write_bytes(write_snapshot(state.snapshot))
            kubeconfig = Path(folder, "kubeconfig")
            kubeconfig.write_text(_NO_SERVER, encoding="utf-8")
            environ = {**os.environ, "KUBECONFIG": str(kubeconfig), **PYTHON_VARIABLES}
            words = [
                sys.executable,
                "-m",
                "opsdk.cli",
                "plan",
                self._entry,
                "--snapshot",
                str(file),
                "--all-permissions",
            ]
            options = ["--until", _PLAN_SECONDS, "--output", "json"]
            planned = subprocess.run(  # noqa: S603 - this program
                [*words, *options], cwd=self._folder, env=environ, capture_output=True, text=True, check=False
            )
        try:
            return json.loads(planned.stdout)
        except ValueError as error:
            raise UsageError(f"the plan for the migrated operator failed: {planned.stderr.strip()}") from error


def _kopf_command(source: _Source, command: str) -> Sequence[str]:
    if command:
        return shlex.split(command)
    if len(source.files) > 1:
        raise UsageError(
            'the operator has several files: pass --kopf "kopf run -A main.py" with the file that kopf runs'
        )
    beside = Path(sys.executable).with_name("kopf")
    program = str(beside) if beside.exists() else shutil.which("kopf")
    if program is None:
        raise UsageError('kopf is not installed here: pass --kopf "/path/to/kopf run -A FILE"')
    return [program, "run", "--all-namespaces", "--standalone", next(iter(source.files))]


def _plan_lines(plan: Any) -> Sequence[str]:
    lines = [
        f"{change['action']} {change['kind']} {change['namespace']}/{change['name']}: {_fields(change['differences'])}"
        for group in plan["objects"]
        for change in group["changes"]
    ]
    return [*lines, *(f"{each['kind']}: {each['subject']}: {each['message']}" for each in plan["consequences"])]


def _fields(differences: Any) -> str:
    return "; ".join(str(Difference(each["path"], each["old"], each["new"])) for each in differences)


def _compare(before: Sequence[EndState], after: Sequence[EndState]) -> RunComparison:
    return compare_runs(*([state.snapshot.objects for state in states] for states in (before, after)))


def _print_plan(plan: Any) -> bool:
    """Print the plan; return whether it is empty. A plan whose handlers need other connections proves nothing."""
    if targets := plan["connections"]:
        names = ["the Kubernetes API" if target == _NO_ADDRESS else target for target in targets]
        print(f"no plan: handlers connect to {', '.join(names)}, which a plan refuses. The takeover counts instead")
        return True
    lines = _plan_lines(plan)
    return _print("plan for the state that kopf left behind", RunComparison(differences=lines, unstable=()))


def _print(title: str, comparison: RunComparison) -> bool:
    """Print a comparison; return whether nothing differs."""
    lines = comparison.differences
    count = f"{len(lines)} difference{'s' if len(lines) > 1 else ''}" if lines else "no difference"
    print(f"{title}: {count}")
    for line in lines:
        print(f"  {line}")
    for line in comparison.unstable:
        print(f"  not counted, because further runs agree: {line}")
    return not lines
