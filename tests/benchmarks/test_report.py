"""Tables, samples on disk, plots and the page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import parse
from benchmarks.page import write_page
from benchmarks.plots import bar_chart
from benchmarks.report import comparison_table, verdict_summary, workload_table
from benchmarks.samples import load, save
from benchmarks.targets import BEST_PEER, Target
from tests.benchmarks.benchmark_results import results, workload

TARGET = Target(letter="x", metric="cpu", limit=0.6, against=BEST_PEER)


def test_a_failed_client_has_no_row_but_a_reason() -> None:
    """The table has figures of clients that ran, and says why the others have none."""
    text = workload_table(results(opsdk=[2], one=[4], other=[-1]))
    assert "| small | one    | 4.00 |" in text
    assert "- small, other: failed: broke" in text
    assert "| other" not in text


def test_clients_stand_beside_each_other() -> None:
    """A row of a comparison has the figure of each client, and a dash for one that failed."""
    table = comparison_table(results(opsdk=[2], one=[4], other=[-1]), workload().metrics[0])
    header, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    assert dict(zip(header[1:], row[1:], strict=True)) == {"opsdk": "2.00", "one": "4.00", "other": "-"}


def test_the_summary_shows_targets_that_are_not_met() -> None:
    """A missed target has its row; targets that are met are counted."""
    assert verdict_summary([TARGET], {"x": results(opsdk=[2], one=[4])}) == "1 of 1 are met."
    missed = verdict_summary([TARGET], {"x": results(opsdk=[4], one=[4])})
    assert missed.startswith("0 of 1 are met.")
    assert "missed" in missed


def test_the_last_column_divides_by_opsdk() -> None:
    """A peer that takes twice as much has 2.00."""
    [row] = [line for line in workload_table(results(opsdk=[2], one=[4])).splitlines() if "one" in line]
    assert row.split("|")[-2].strip() == "2.00"


def test_saved_samples_give_the_same_tables(tmp_path: Path) -> None:
    """A page from a file is the page of the run."""
    collected = {"x": results(opsdk=[2, 3], one=[4], other=[-1])}
    save(tmp_path / "run.json", collected, {"cores": "2"})
    loaded, descriptions = load([tmp_path / "run.json"], [workload()])
    assert workload_table(loaded["x"]) == workload_table(collected["x"])
    assert descriptions == [{"cores": "2"}]


def test_a_later_file_replaces_a_workload(tmp_path: Path) -> None:
    """A workload that ran again counts once."""
    for number, figure in enumerate([1.0, 9.0]):
        save(tmp_path / f"{number}.json", {"x": results(opsdk=[figure])}, {})
    loaded, _ = load([tmp_path / "0.json", tmp_path / "1.json"], [workload()])
    assert loaded["x"].median("small", "opsdk", workload().metrics[0]) == 9.0


@pytest.mark.parametrize("figure", [0.0, -1.0, 1e9])
def test_a_chart_is_well_formed_for_every_figure(figure: float) -> None:
    """Zero, negative and huge figures keep their bars inside the picture, and names are escaped."""
    chart = ET.fromstring(bar_chart("a < b", {"<1>": [("opsdk", figure), ("kopf", 1.0)]}))
    bars = [element for element in chart if element.tag.endswith("rect")]
    assert len(bars) == 2
    assert all(0 < float(bar.attrib["width"]) < float(chart.attrib["width"]) for bar in bars)


def test_the_page_has_verdicts_tables_and_machines(tmp_path: Path) -> None:
    """The page has all measurements and machines; a second machine adds only the lines that differ."""
    collected = {"x": results(opsdk=[2], one=[4])}
    write_page(tmp_path / "page.md", collected, [TARGET], [{"cores": "2", "size": "a"}, {"cores": "2", "size": "b"}])
    page = (tmp_path / "page.md").read_text()
    assert "1 of 1 are met." in page
    assert comparison_table(collected["x"], workload().metrics[0]) in page
    assert page.count("cores") == 1
    assert page.count("size") == 2


def test_the_page_names_workloads_without_results(tmp_path: Path) -> None:
    """A workload that no run measured is named, so that its absence does not look like the whole page."""
    for collected, is_named in ({"x": results(opsdk=[2])}, False), ({}, True):
        write_page(tmp_path / "page.md", collected, [], [{"cores": "2"}], [workload()])
        assert ("**Not measured**: (x)" in (tmp_path / "page.md").read_text()) is is_named


@pytest.mark.parametrize(("option", "known"), [("--only", "a"), ("--clients", "opsdk")])
def test_unknown_names_are_an_error(option: str, known: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A workload or client that does not exist ends the run before it starts; the message has those that exist."""
    with pytest.raises(SystemExit):
        parse([option, f"{known},other"])
    assert f"other: use some of {known}, " in capsys.readouterr().err


@pytest.mark.parametrize(("load", "busy"), [("1.2", False), ("8.6", True)])
def test_the_page_names_other_work(tmp_path: Path, load: str, busy: bool) -> None:
    """A load above what a server and a client need is said at the top of the page."""
    description = {"cores": "2", "load": f"{load} runnable processes"}
    write_page(tmp_path / "page.md", {"x": results(opsdk=[2])}, [TARGET], [description])
    assert ("Other work ran" in (tmp_path / "page.md").read_text()) is busy


def test_the_page_names_workloads_without_peers(tmp_path: Path) -> None:
    """A workload that only opsdk ran has nothing to compare: the page names it, and shows no figures."""
    alone = results(opsdk=[2])
    alone.workload = replace(alone.workload, clients=("opsdk",))
    write_page(tmp_path / "page.md", {"x": alone}, [], [{"cores": "2"}])
    page = (tmp_path / "page.md").read_text()
    assert "**Of opsdk alone**, so only in the output of the run: (x) Example." in page
    assert "2.00" not in page
