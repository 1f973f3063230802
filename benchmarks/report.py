"""Tables of results as text and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.model import OPSDK, Metric, Results
from benchmarks.targets import Judgement, Target, judge


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are padded, so that it also reads well in a terminal.

    >>> print(table(["client", "ms"], [["opsdk", "1"]]))
    | client | ms  |
    | ------ | --: |
    | opsdk  |   1 |
    """
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join([first, *others]) + " |"

    heading = "| " + " | ".join(cell.ljust(width) for cell, width in zip(header, widths, strict=True)) + " |"
    rule = "| " + " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    return "\n".join([heading, rule, *(line(row) for row in rows)])


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
        for client in results.workload.clients:
            if (variant, client) not in results.outcomes:
                continue
            if reason := results.reason(variant, client):
                reasons.append(f"{variant}, {client}: {reason}")
                continue
            rows.append([variant, client, *_cells(results, variant, client, metrics), ""])
            first = results.median(variant, client, metrics[0])
            rows[-1][-1] = number(first / own, 2) if first is not None and own else "-"
    lines = [table(header, rows)] if rows else []
    if reasons:
        lines += ["", "Without figures:", "", *(f"- {reason}" for reason in dict.fromkeys(reasons))]
    return "\n".join(lines)


def _cells(results: Results, variant: str, client: str, metrics: Sequence[Metric]) -> list[str]:
    return [number(results.median(variant, client, metric), metric.digits) for metric in metrics]


def verdict_table(targets: Sequence[Target], results: Mapping[str, Results]) -> str:
    """Return the table of targets with what was measured."""
    judgements = [judgement for target in targets for judgement in judge(target, results)]
    return table(["target", "variant", "limit", "measured", "verdict"], [_verdict_row(j, results) for j in judgements])


def _verdict_row(judgement: Judgement, results: Mapping[str, Results]) -> list[str]:
    target = judgement.target
    result = results.get(target.letter)
    metrics = {} if result is None else {metric.name: metric for metric in result.workload.metrics}
    lower = metrics[target.metric].lower_is_better if target.metric in metrics else True
    unit = f" x {judgement.against}" if target.against else ""
    return [
        f"({target.letter}) {target.metric}",
        judgement.variant or target.variant or "-",
        f"{'<=' if lower else '>='} {target.limit:g}{unit}",
        number(judgement.figure, 2),
        judgement.verdict.value,
    ]
