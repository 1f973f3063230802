"""What a kopf operator declares, and what became of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

__all__ = [
    "HandlerKind",
    "KindName",
    "KopfHandler",
    "Migration",
    "MigrationFinding",
    "MigrationVerdict",
    "ResourceSelector",
    "SourceModule",
]


class HandlerKind(Enum):
    """The decorators of kopf."""

    CREATE = "on.create"
    UPDATE = "on.update"
    RESUME = "on.resume"
    DELETE = "on.delete"
    FIELD = "on.field"
    EVENT = "on.event"
    TIMER = "timer"
    DAEMON = "daemon"
    STARTUP = "on.startup"
    CLEANUP = "on.cleanup"
    LOGIN = "on.login"
    PROBE = "on.probe"
    VALIDATE = "on.validate"
    MUTATE = "on.mutate"
    INDEX = "index"
    SUBHANDLER = "subhandler"


CHANGES: Final = frozenset(
    {HandlerKind.CREATE, HandlerKind.UPDATE, HandlerKind.RESUME, HandlerKind.DELETE, HandlerKind.FIELD}
)
RESOURCES: Final = CHANGES | {HandlerKind.EVENT, HandlerKind.TIMER, HandlerKind.DAEMON}
"""The handlers of objects that the command migrates."""
ACTIVITIES: Final = frozenset({HandlerKind.STARTUP, HandlerKind.CLEANUP})


class MigrationVerdict(Enum):
    """What became of a handler, an option or a name."""

    MIGRATED = "migrated"
    CHECK = "check"
    """Migrated, but it may behave differently in the case that the finding names."""
    BY_HAND = "by hand"
    """Not migrated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFinding:
    """One line of the report.

    Attributes:
        file: relative to the operator's folder.
        line: in the source, from 1.
        what: a handler, such as ``@kopf.on.create deploy``, an option, or a name of kopf.
        verdict: what became of it.
        became: what it is now, or what to do by hand.
    """

    file: str
    line: int
    what: str
    verdict: MigrationVerdict
    became: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindName:
    """A kind that an operator handles.

    Attributes:
        group: empty for the core group.
        version: such as ``v1``.
        kind: in CamelCase.
        plural: the resource.
        names: plural, singular and short names.
        is_guessed: no definition was found, so the kind is derived from the plural.
    """

    group: str
    version: str
    kind: str
    plural: str
    names: frozenset[str] = frozenset()
    is_guessed: bool = False

    @property
    def api_version(self) -> str:
        """Group and version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Plural and group, such as ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSelector:
    """How a decorator names its resource.

    Attributes:
        group: None if it names none.
        version: None if it names none.
        name: plural, singular, kind or short name.
    """

    group: str | None = None
    version: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KopfHandler:
    """One decorator on one function.

    Attributes:
        module: of the function, with dots; relative to the operator's folder.
        file: relative to the operator's folder.
        line: of the decorator.
        function: its name.
        kind: the decorator.
        id: of the handler in kopf's records.
        selector: the resource; None for startup and cleanup.
        problem: why the resource cannot be read; empty if it can.
        options: source text of the options.
        values: values of those options that are constants.
        parameters: named parameters of the function, each with whether it has a default.
        passes_everything: whether the function uses its ``**kwargs``.
        is_async: whether the function is async.
    """

    module: str
    file: str
    line: int
    function: str
    kind: HandlerKind
    id: str
    selector: ResourceSelector | None = None
    problem: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    parameters: Mapping[str, bool] = field(default_factory=dict)
    passes_everything: bool = False
    is_async: bool = False

    @property
    def shown(self) -> str:
        """Decorator and function."""
        return f"@kopf.{self.kind.value} {self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What startup handlers set in kopf's settings.

    Attributes:
        finalizer: of kopf.
        prefix: of the annotations.
        key: of the annotation with the handled state.
    """

    finalizer: str = "kopf.zalando.org/KopfFinalizerMarker"
    prefix: str = ""
    key: str = ""


@dataclass(slots=True, kw_only=True)
class SourceModule:
    """One file of the operator.

    Attributes:
        name: with dots, relative to the operator's folder.
        file: relative to the operator's folder.
        text: the new source.
        handlers: the handlers that can be migrated.
        findings: what is reported so far.
        top_names: names that the module binds at its top level.
        settings: fields of `Settings` that its startup handlers set.
    """

    name: str
    file: str
    text: str
    handlers: list[KopfHandler] = field(default_factory=list)
    findings: list[MigrationFinding] = field(default_factory=list)
    top_names: frozenset[str] = frozenset()
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The migrated operator.

    Attributes:
        files: new text by path.
        entry: the file with the operator, relative to the folder.
        findings: the report, in the order of the source.
        kinds: the kinds that it reconciles.
        handlers: number of decorators of kopf.
    """

    files: Mapping[str, str]
    entry: str
    findings: Sequence[MigrationFinding]
    kinds: Sequence[KindName]
    handlers: int
