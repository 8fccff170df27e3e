"""The reproductions: their tools against plain loops, small runs of each, the report's page."""

from __future__ import annotations

import importlib
import itertools
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.sizes import size

from onkel import core, kernels

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)


def load(name: str) -> Any:
    return importlib.import_module(f"experiments.{name}")


harness, writing, lines = load("harness"), load("writing"), load("published_lines")
drifting_switching, usps_novelty = load("drifting_switching"), load("usps_novelty")
tree_growth, published = load("tree_growth"), load("published")
published_kafbox, published_kol = load("published_kafbox"), load("published_kol")
published_budgeted, published_libol = load("published_budgeted"), load("published_libol")
reproduce, reproduce_page = load("reproduce"), load("reproduce_page")
reproduce_docs, Study = load("reproduce_docs"), load("study").Study
EXACT, BETTER, MET, SHORT, BESIDE = (
    lines.EXACT, lines.BETTER, lines.MET, lines.SHORT, lines.BESIDE
)  # fmt: skip

slow_on_numpy = pytest.mark.skipif(core.BACKEND == "numpy", reason="minutes in plain NumPy")


# -- tools -----------------------------------------------------------------------------------------


def signed_rank_by_all_signs(first: np.ndarray, second: np.ndarray) -> float:
    """Count, over every way to sign the differences, those with as small a sum of ranks."""
    gap = [a - b for a, b in zip(first, second, strict=True) if a != b]
    size = [abs(g) for g in gap]
    ranks = [sum(s < t for s in size) + (sum(s == t for s in size) + 1) / 2 for t in size]
    seen = sum(r for r, g in zip(ranks, gap, strict=True) if g > 0)
    sums = [sum(itertools.compress(ranks, signs))
            for signs in itertools.product((0, 1), repeat=len(gap))]  # fmt: skip
    return sum(s <= seen for s in sums) / len(sums)


def test_signed_ranks_are_those_of_all_signs(rng):
    for n in (1, 4, 9, 12):
        a, b = rng.integers(0, 12, size=(2, n))  # ties, and equal pairs
        assert writing.signed_rank(a, b) == pytest.approx(signed_rank_by_all_signs(a, b))


def test_signed_ranks_are_scipys(rng):
    stats = pytest.importorskip("scipy.stats")
    a, b = rng.normal(size=(2, 20))
    wanted = stats.wilcoxon(a, b, alternative="less", method="exact").pvalue
    assert writing.signed_rank(a, b) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("printed", "ours", "lower", "verdict"),
    [(1.0, 1.004, True, EXACT), (1.0, 0.5, True, BETTER), (1.0, 0.5, False, SHORT),
     (1.0, 1.05, True, MET), (1.0, 0.95, True, MET), (1.0, 1.5, True, SHORT),
     (1.0, 1.5, False, BETTER), (None, 1.0, True, BESIDE)],
)  # fmt: skip
def test_verdicts(printed, ours, lower, verdict):
    found = lines.line("source", "setting", "error", printed, ours, lower=lower, slack=0.1)
    assert found["verdict"] == verdict
    assert found["difference"] == (None if printed is None else round(ours - printed, 2))


def test_terms_alive_are_counted_by_the_products(rng):
    born, n, lam = np.sort(rng.choice(400, 30, replace=False)), 400, 0.3
    left = [np.prod([1 - lam / np.sqrt(t) for t in range(b + 2, n + 1)]) for b in born]
    assert usps_novelty.alive(born, n, lam) == sum(v > 0.01 for v in left)


def test_unusual_is_the_rank_of_the_distance_to_neighbours(rng):
    X = rng.normal(size=(30, 3))
    square = ((X[:, None] - X) ** 2).sum(axis=2)
    near = [np.sort(np.delete(row, i))[:5].mean() for i, row in enumerate(square)]
    wanted = [sum(other < one for other in near) / 29 for one in near]
    assert usps_novelty.unusual(X, X, same=True) == pytest.approx(np.array(wanted))


def test_a_logarithm_is_fitted_exactly():
    m = np.array([100.0, 1000.0, 10_000.0])
    found = tree_growth.fitted(m, 2 + 0.5 * np.log2(m))
    assert found["a, µs"] == pytest.approx(2)
    assert found["b, µs per doubling"] == pytest.approx(0.5)
    assert found["R²"] == pytest.approx(1)


# -- methods that are not the library's ------------------------------------------------------------


def test_pa1_is_the_textbooks(rng):
    X, w = rng.normal(size=(60, 3)), np.zeros(3)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1, -1)
    for x, label in zip(X, y, strict=True):
        w += min(0.25, max(0.0, 1 - label * (w @ x)) / (x @ x)) * label * x
    model = published_libol.raw(published_libol.PA1(C=0.25)).partial_fit(X, y, classes=[-1, 1])
    assert model.coef_.ravel() == pytest.approx(w)


def test_features_have_the_kernels_products(rng):
    X = rng.integers(0, 2, size=(12, 123)).astype(float)
    wanted = kernels.Gaussian(published_kol.GAMMA)(X, X)
    nystroem = published_kol.nystroem(X, rank=12)(X)
    assert nystroem @ nystroem.T == pytest.approx(wanted)
    fourier = published_kol.fourier(0, components=40_000)(X)
    assert fourier @ fourier.T / 40_000 == pytest.approx(wanted, abs=0.03)


def test_klms_stops_storing(rng):
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    terms: list[tuple[np.ndarray, float]] = []
    errors = []
    for t in range(40):
        near = [np.exp(-((X[t] - x) ** 2).sum() / 2) for x, _ in terms]
        errors.append(y[t] - sum(a * k for (_, a), k in zip(terms, near, strict=True)))
        if t < 25:
            terms.append((X[t], 0.3 * errors[-1]))
    found = published_kafbox.klms(X, y, sigma=1.0, eta=0.3, most=25)
    assert found == pytest.approx(np.array(errors))


def test_the_gaussians_bayes_rule_is_as_good_as_the_text_says(rng):
    """By a sum over a fine grid, and by what is drawn (to four standard errors)."""
    x, y = np.meshgrid(np.linspace(-18, 22, 1601), np.linspace(-20, 20, 1601))
    near, far = np.exp(-(x**2 + y**2) / 2), np.exp(-((x - 2) ** 2 + y**2) / 8) / 4
    exact = 50 * np.maximum(near, far).sum() * 0.025**2 / (2 * np.pi)
    assert f"right on {exact:.2f} %" in " ".join(published_budgeted.__doc__.split())
    X, labels = published_budgeted.gauss(200_000, rng)
    one = -((X - [2.0, 0.0]) ** 2).sum(axis=1) / 8 - np.log(4)
    right = np.mean(np.where(one > -(X**2).sum(axis=1) / 2, 1, -1) == labels)
    assert 100 * right == pytest.approx(exact, abs=0.35)


# -- small runs ------------------------------------------------------------------------------------


@pytest.mark.long
def test_drifting_and_switching():
    pytest.importorskip("matplotlib")
    study = drifting_switching.run(quick=True, n=300, seeds=4)
    results, order = (rows for _, rows in study.tables)
    assert len(results) == 15 and len(order) == 21
    assert all(0 < row["mistakes, median"] < 300 for row in results)
    known = {"holds", "not decided", "the other way round", "NORMA ahead", "ALMA ahead"}
    assert {row["verdict"] for row in order} <= known
    assert all(0 < row["p"] <= 1 for row in order)


def test_curves_only_rise_and_tuning_sees_other_streams():
    runs = drifting_switching.measure("switching", 200, 3, quick=True)
    for curve in runs.curves.values():
        assert curve.shape == (3, 200)
        assert np.isin(np.diff(curve, axis=1), (0, 1)).all()
    assert drifting_switching.FIRST_TUNING_SEED > 20


def test_trees_are_timed(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(tree_growth, "TERMS", (50, 100, 200))
    study = tree_growth.run(quick=True)
    assert [row["terms"] for row in study.tables[0][1]] == [50, 100, 200]
    assert all(row["exponential, trees, µs"] > 0 for row in study.tables[0][1])


def test_digits(data_dir):
    pytest.importorskip("matplotlib")
    study = usps_novelty.run(quick=True, data=data_dir, rows=size(200, 400))
    if study.skipped:
        pytest.skip(study.skipped)
    for row in study.tables[0][1]:
        assert row["alerts"] == row["terms"] >= row["terms alive"]
        assert 0 <= row["50 worst"] <= 1
    assert len(study.figures) == 2


def test_nothing_runs_without_data():
    for run in (published.run, usps_novelty.run):
        study = run(True, None)
        assert "ONKEL_DATA" in study.skipped and not study.tables


# -- to the digit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", published_kafbox.FILES)
def test_norma_on_the_toolboxs_series(load_data, data_dir, file):
    load_data(file)
    X, y = published_kafbox.embedded(data_dir, file)
    errors, _ = published_kafbox.errors_of(published_kafbox.norma(file), X, y)
    printed = published_kafbox.SERIES[file]["NORMA"]
    assert round(published_kafbox.decibels(errors[1000:]), 2) == printed


@slow_on_numpy
def test_the_kernel_perceptron_on_a9a(load_data, data_dir):
    load_data("a9a")
    found = published_kol.perceptron(published_kol.load(data_dir))
    assert [row["ours"] for row in found] == [6887, 6887, 21.15, 29.26]
    assert {row["verdict"] for row in found} == {EXACT}


# -- the page --------------------------------------------------------------------------------------


class Links(HTMLParser):
    """Collect what a page asks for, and whether its tags close."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.asked += [v or "" for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def fake(rows: list[dict[str, Any]], check: bool = True) -> Any:
    checks = [harness.Check("a number", 1.0, high=2.0 if check else 0.0)]
    return Study("A < B", "*Yes*: `a < b`.\n\n- one\n- two", [("All & more", rows)], [], checks)


def test_the_page_holds_all_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "STUDIES", (reproduce.Entry("one", "fake_study", 1, 1),))
    monkeypatch.setitem(
        sys.modules, "experiments.fake_study", _module(lambda *_: fake([{"a<": 1.5, "b": "x"}]))
    )
    assert reproduce.main(["--quick"], tmp_path) == 0
    page = (tmp_path / "reproduce-quick.html").read_text("utf-8")
    links = Links(page)
    assert not links.open
    assert all(link.startswith(("data:", "#")) for link in links.asked)
    assert "default-src 'none'" in page and "width=device-width" in page
    assert "A &lt; B" in page and "<em>Yes</em>" in page and "<li>two</li>" in page
    assert (tmp_path / "one.json").exists()


def test_a_study_that_fails_or_misses_is_told(tmp_path, monkeypatch, capsys):
    def broken(quick: bool, data: Path | None) -> Any:
        raise RuntimeError("no luck")

    entries = tuple(reproduce.Entry(name, name, 1, 1) for name in ("broken_study", "missed_study"))
    monkeypatch.setattr(reproduce, "STUDIES", entries)
    monkeypatch.setitem(sys.modules, "experiments.broken_study", _module(broken))
    monkeypatch.setitem(
        sys.modules, "experiments.missed_study", _module(lambda *_: fake([{"a": 1}], False))
    )
    assert reproduce.main(["--jobs", "1"], tmp_path) == 1
    page = (tmp_path / "reproduce.html").read_text("utf-8")
    assert "RuntimeError: no luck" in page and 'class="missed"' in page
    assert "FAILED" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        reproduce.main(["nonsense"], tmp_path)


def test_only_a_peer_may_be_missing(monkeypatch, capsys):
    def lacks(module: str) -> Any:
        def run(quick: bool, data: Path | None) -> Any:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)

        return run

    def bad_name(quick: bool, data: Path | None) -> Any:
        raise ImportError("cannot import name 'x' from 'onkel'", name="onkel")

    runs = {"river.tree": lacks("river.tree"), "onkel.x": lacks("onkel.x"), "name": bad_name}
    found = {}
    for name, run in runs.items():
        monkeypatch.setitem(sys.modules, "experiments.fake_study", _module(run))
        found[name] = reproduce.outcome(reproduce.Entry(name, "fake_study", 1, 1), True, None)
    assert [one.failed for one in found.values()] == [False, True, True]
    assert all(one.study.skipped for one in found.values())  # so no page is overwritten by it


def test_a_full_run_is_meant_to_take_less_than_fifteen_minutes():
    assert sum(entry.seconds for entry in reproduce.STUDIES) < 2 * 900 * 0.7  # on two cores
    assert sum(entry.quick for entry in reproduce.STUDIES) < 120


def _module(run: Any) -> Any:
    return type("Module", (), {"run": staticmethod(run)})


def test_every_study_has_its_place_in_the_documentation():
    names = ("reproduce.md", "evidence.md", "knobs.md")
    pages = "".join((ROOT / "docs" / name).read_text("utf-8") for name in names)
    for entry in reproduce.STUDIES:
        assert f"<!-- {entry.name}:begin -->" in pages, f"no page has {entry.name}"
    for file, part, study, _ in reproduce_docs.PLACES:
        assert f"<!-- {part}:begin -->" in (ROOT / "docs" / file).read_text("utf-8")
        assert study in {entry.name for entry in reproduce.STUDIES}


def test_words_and_cells():
    assert reproduce_page.words("**So** 2 * 3 * 4") == "<p><strong>So</strong> 2 * 3 * 4</p>"
    assert reproduce_page.cell(float("nan")) == "" and reproduce_page.cell(6887) == "6,887"
    assert reproduce_docs.markdown([{"a": "x|y", "b": None}]) == "| a |\n| --- |\n| x\\|y |"


def test_linear_descent_on_features_is_plain(rng):
    X = rng.normal(size=(50, 4))
    y, w = np.where(X[:, 0] > 0, 1, -1), np.zeros(4)
    for x, label in zip(X, y, strict=True):
        w += 0.1 * label * x * (label * (w @ x) <= 1)
    model = published_kol.linear(0.1, average=False).partial_fit(X, y, classes=[-1, 1])
    assert model.coef_.ravel() == pytest.approx(w)
