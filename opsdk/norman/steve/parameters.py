"""The parameters of a list request of ``/v1``. Pure.

Upstream: github.com/rancher/steve/pkg/stores/sqlpartition/listprocessor/processor.go, README.md
Deviates: numbers that do not parse are errors; steve takes the default.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.field_path import FieldPath, parse_path
from opsdk.norman.collections.filter import FilterCondition, FilterOperator, OrFilter, query_error
from opsdk.norman.collections.indexed_list import IndexedPage
from opsdk.norman.collections.query import ObjectQuery, SortKey
from opsdk.norman.steve.filter_language import parse_filter

DEFAULT_LIMIT = 100_000
"""Objects in one response, unless the request sets a limit."""

MAX_CONDITIONS = 200
"""Conditions of all filters in one request: each is tested for each object."""
MAX_VALUES = 10_000
"""Values of all conditions in one request."""
_MAX_SORT_KEYS = 10
_MAX_SUMMARY_FIELDS = 32
_MAX_DIGITS = 20

_EXCLUDE = "projectsornamespaces!"


class ProjectsOrNamespaces(msgspec.Struct, frozen=True):
    """Namespaces, or projects that namespaces belong to.

    Attributes:
        names: names of namespaces and ids of projects.
        exclude: exclude them instead.
    """

    names: frozenset[str]
    exclude: bool = False

    def filters(self, project_label: str) -> tuple[OrFilter, ...]:
        """Return the filters that select these Namespaces; the label has the project of one.

        >>> [str(item) for item in ProjectsOrNamespaces(frozenset({"p1"})).filters("project")]
        ['metadata.name in (p1),metadata.labels.project in (p1)']
        """
        operator = FilterOperator.NOT_IN if self.exclude else FilterOperator.IN
        paths = (("metadata", "name"), ("metadata", "labels", project_label))
        conditions = [FilterCondition(path, operator, tuple(sorted(self.names))) for path in paths]
        return tuple(OrFilter([c]) for c in conditions) if self.exclude else (OrFilter(conditions),)


class ListParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a list request.

    Attributes:
        selection: filters, order, summary and least revision.
        page: counted from 1.
        page_size: objects in a page; 0 for no pages.
        limit: objects in one response; 0 for no limit.
        continue_token: of the response before, or empty.
        projects_or_namespaces: None for all.
        summary_only: send the counts without the objects.
    """

    selection: ObjectQuery = ObjectQuery()
    page: int = 1
    page_size: int = 0
    limit: int = DEFAULT_LIMIT
    continue_token: str = ""
    projects_or_namespaces: ProjectsOrNamespaces | None = None
    summary_only: bool = False

    def query(self, visible: VisibleObjects, filters: tuple[OrFilter, ...] = ()) -> ObjectQuery:
        """Return the query for a user, with more filters.

        Raises:
            NormanError: the continue token is not valid, or belongs to another filter or order (400).
        """
        token = self._token()
        size = min(filter(None, (self.page_size, self.limit)), default=0)
        return replace(
            self.selection,
            filters=(*self.selection.filters, *filters),
            visible=visible,
            limit=size,
            first=(token.offset if token is not None else 0) + (self.page - 1) * size,
            snapshot=token.revision if token is not None else None,
        )

    def pages(self, page: IndexedPage) -> int:
        """Return the number of pages of a list; 0 without page size."""
        return -(-page.count // self.page_size) if self.page_size else 0

    def next_token(self, page: IndexedPage) -> str:
        """Return the continue token for the part after a page; empty at the end."""
        end = page.first + len(page.entries)
        if end >= page.count:
            return ""
        token = msgspec.json.encode(_Token(page.revision, end, self._checksum))
        return base64.urlsafe_b64encode(token).decode().rstrip("=")

    @property
    def _checksum(self) -> int:
        selected = self.projects_or_namespaces
        projects = None if selected is None else (sorted(selected.names), selected.exclude)
        own = self.selection
        return zlib.crc32(repr((own.filters, own.sort, projects, own.summary)).encode())

    def _token(self) -> _Token | None:
        text = self.continue_token
        if not text:
            return None
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
        except (binascii.Error, ValueError, msgspec.DecodeError) as error:
            raise query_error("continue", 0, "the continue token is not valid: list again without it") from error
        if token.query != self._checksum or token.offset < 0:
            reason = "the continue token belongs to another filter or order: list again without it"
            raise query_error("continue", 0, reason)
        return token


class _Token(msgspec.Struct, frozen=True, array_like=True):
    revision: int
    offset: int
    query: int


def parse_parameters(parameters: str | Iterable[tuple[str, str]]) -> ListParameters:
    """Read the parameters of a list request: a query string, or names and decoded values.

    Parameters that are not of lists are ignored.

    >>> parameters = parse_parameters("filter=metadata.name~web&sort=-metadata.creationTimestamp&pagesize=10&page=2")
    >>> parameters.page, parameters.page_size, str(parameters.selection.sort[0])
    (2, 10, '-metadata.creationTimestamp')

    Raises:
        NormanError: a parameter is not valid, with status 400. It names the parameter, and the position in it.
    """
    pairs = parse_qsl(parameters, keep_blank_values=True) if isinstance(parameters, str) else parameters
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    last = {name: texts[-1] for name, texts in values.items()}
    limit = _number(last, "limit", DEFAULT_LIMIT, least=-1)
    summary = _fields(last, "summary")
    if "summaryonly" in last and not summary:
        raise query_error("summaryonly", 0, "requires the parameter 'summary' with the fields to count")
    selection = ObjectQuery(
        filters=_filters(values.get("filter", ())),
        sort=_sort(last.get("sort", "")),
        summary=summary,
        revision=_number(last, "revision", 0, least=0) if last.get("revision") else None,
    )
    return ListParameters(
        selection=selection,
        page=_number(last, "page", 1, least=1),
        page_size=_number(last, "pagesize", 0, least=0),
        limit=max(limit, 0),
        continue_token=last.get("continue", ""),
        projects_or_namespaces=_projects(last),
        summary_only=_flag(last, "summaryonly"),
    )


def _filters(texts: Iterable[str]) -> tuple[OrFilter, ...]:
    conditions, values = MAX_CONDITIONS, MAX_VALUES
    filters = []
    for text in texts:
        if text:
            parsed = parse_filter(text, conditions=conditions, values=values)
            conditions -= len(parsed)
            values -= sum(len(condition.values) for condition in parsed)
            filters.append(parsed)
    return tuple(filters)


def _number(last: Mapping[str, str], parameter: str, default: int, *, least: int) -> int:
    text = last.get(parameter, "")
    if not text:
        return default
    try:
        number = int(text) if len(text) <= _MAX_DIGITS else least - 1
    except ValueError:
        number = least - 1
    if number < least or not text.isascii():
        raise query_error(parameter, 0, f"{text[:_MAX_DIGITS]!r} is not a whole number of at least {least}")
    return number


def _flag(last: Mapping[str, str], parameter: str) -> bool:
    text = last.get(parameter)
    if text not in (None, "", "true", "false"):
        raise query_error(parameter, 0, f"{text!r} is neither true nor false")
    return text in ("", "true")


def _fields(last: Mapping[str, str], parameter: str) -> tuple[FieldPath, ...]:
    if parameter not in last:
        return ()
    parts = list(_split(last[parameter]))
    _check_count(parameter, len(parts), _MAX_SUMMARY_FIELDS)
    return tuple(_path(parameter, text, position) for text, position in parts)


def _check_count(parameter: str, count: int, limit: int) -> None:
    if count > limit:
        raise query_error(parameter, 0, f"{count} fields: use at most {limit}")


def _split(text: str) -> Iterable[tuple[str, int]]:
    """Iterate over the parts between commas, with their positions."""
    position = 0
    for part in text.split(","):
        yield part, position
        position += len(part) + 1


def _path(parameter: str, text: str, position: int) -> FieldPath:
    try:
        return parse_path(text)
    except ValueError as error:
        raise query_error(parameter, position, str(error)) from error


def _sort(text: str) -> tuple[SortKey, ...]:
    keys = []
    _check_count("sort", text.count(",") + 1, _MAX_SORT_KEYS)
    for part, position in _split(text):
        as_ip = part.startswith("ip(") and part.endswith(")")
        field = part[3:-1] if as_ip else part
        descending = field.startswith("-")
        if part:  # steve skips empty parts
            path = _path("sort", field.removeprefix("-"), position)
            # As SQLite sorts with COLLATE NOCASE, and labels with NULLS LAST.
            keys.append(
                SortKey(path, descending, as_ip, fold_case=True, absent_last=path[:2] == ("metadata", "labels"))
            )
    return tuple(keys)


def _projects(last: Mapping[str, str]) -> ProjectsOrNamespaces | None:
    for parameter, exclude in (("projectsornamespaces", False), (_EXCLUDE, True)):
        names = frozenset(filter(None, last.get(parameter, "").split(",")))
        if names:
            return ProjectsOrNamespaces(names, exclude)
    return None
