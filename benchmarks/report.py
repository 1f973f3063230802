"""Tables of results as text and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.model import OPSDK, Metric, Results
from benchmarks.targets import Judgement, Target, Verdict, judge


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are padded, so that it also reads well in a terminal.

    Columns of figures are aligned to the right.

    >>> print(table(["client", "ms"], [["opsdk", "1.5"], ["kopf", "-"]]))
    | client | ms  |
    | ------ | --: |
    | opsdk  | 1.5 |
    | kopf   |   - |
    """
    columns = range(len(header))
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in columns]
    figures = [i > 0 and all(_is_figure(row[i]) for row in rows) for i in columns]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[i].rjust(widths[i]) if figures[i] else cells[i].ljust(widths[i]) for i in columns]
        return "| " + " | ".join(padded) + " |"

    heading = "| " + " | ".join(cell.ljust(width) for cell, width in zip(header, widths, strict=True)) + " |"
    rules = ["-" * (widths[i] - 1) + (":" if figures[i] else "-") for i in columns]
    return "\n".join([heading, "| " + " | ".join(rules) + " |", *(line(row) for row in rows)])


def _is_figure(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").lstrip("-").isdigit()


def number(value: float | None, digits: int) -> str:
    """Return a figure with thousands separators; a dash for None.

    >>> number(1234.5, 1), number(None, 1)
    ('1,234.5', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"


def workload_table(results: Results) -> str:
    """Return one table with a row for each variant and client, and each client's ratio to opsdk in the first metric."""
    metrics = results.workload.metrics
    header = ["", "client", *(metric.name for metric in metrics), "x opsdk"]
    rows, reasons = [], []
    for variant in results.variants():
        own = results.median(variant, OPSDK, metrics[0])
        for client in results.clients():
            if (variant, client) not in results.outcomes:
                continue
            if reason := results.reason(variant, client):
                reasons.append(f"{variant}, {Path(client).name}: {reason}")
                continue
            rows.append([variant, Path(client).name, *_cells(results, variant, client, metrics), ""])
            first = results.median(variant, client, metrics[0])
            rows[-1][-1] = number(first / own, 2) if first is not None and own else "-"
    lines = [table(header, rows)] if rows else []
    if results.workload.summary is not None:
        lines += ["", results.workload.summary(results)]
    if reasons:
        lines += ["", "Without figures:", "", *(f"- {reason}" for reason in dict.fromkeys(reasons))]
    return "\n".join(lines)


def comparison_table(results: Results, metric: Metric) -> str:
    """Return one table for a metric, with a row for each variant and a column for each client; a dash for no figure."""
    clients = results.clients()
    rows = [
        [variant, *(number(results.median(variant, client, metric), metric.digits) for client in clients)]
        for variant in results.variants()
    ]
    return table([metric.name, *(Path(client).name for client in clients)], rows)


def _cells(results: Results, variant: str, client: str, metrics: Sequence[Metric]) -> list[str]:
    return [number(results.median(variant, client, metric), metric.digits) for metric in metrics]


def verdict_table(targets: Sequence[Target], results: Mapping[str, Results]) -> str:
    """Return the table of targets with what was measured."""
    return _judgement_table([judgement for target in targets for judgement in judge(target, results)])


def verdict_summary(targets: Sequence[Target], results: Mapping[str, Results]) -> str:
    """Return how many targets are met, and the table of the others."""
    judgements = [judgement for target in targets for judgement in judge(target, results)]
    others = [judgement for judgement in judgements if judgement.verdict is not Verdict.MET]
    met = f"{len(judgements) - len(others)} of {len(judgements)} are met."
    return f"{met}\n\n{_judgement_table(others)}" if others else met


def _judgement_table(judgements: Sequence[Judgement]) -> str:
    return table(["target", "variant", "limit", "measured", "verdict"], [_verdict_row(j) for j in judgements])


def _verdict_row(judgement: Judgement) -> list[str]:
    target = judgement.target
    unit = f" x {judgement.against}" if target.against else ""
    return [
        f"({target.letter}) {target.metric}",
        judgement.variant or target.variant or "-",
        f"{'>=' if target.at_least else '<='} {target.limit:g}{unit}",
        number(judgement.figure, 2),
        judgement.verdict.value,
    ]
