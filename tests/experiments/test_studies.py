"""The studies under drift: their measures against plain loops and closed forms, and tiny runs."""

from __future__ import annotations

import sys
from math import exp
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
for module in ("matplotlib", "river.base", "sklearn"):
    pytest.importorskip(module, reason="the studies need it")
sys.path.insert(0, str(ROOT))

from experiments import (  # noqa: E402
    drift_classes,
    drift_intervals,
    drift_nab,
    drift_skab,
    drift_texts,
    evidence,
    knobs,
    meeting,
    nab_score,
)
from onkel import core  # noqa: E402

STANDARD = nab_score.PROFILES["standard"]


# -- NAB's score -------------------------------------------------------------------------------


def sigmoid(p: float) -> float:
    return -1.0 if p >= 3 else 2 / (1 + exp(5 * p)) - 1


def naive_nab(alerts: list[bool], windows: list[tuple[int, int]], profile) -> float:
    """NAB's scorer as its paper tells it: windows one by one, then every false alert."""
    start = min(int(0.15 * len(alerts)), 750)
    said = [t for t, alert in enumerate(alerts) if alert and t >= start]
    total = 0.0
    for first, last in windows:
        inside = [t for t in said if first <= t <= last]
        if inside:
            place = -(last - inside[0] + 1) / (last - first + 1)
            total += profile.tp * sigmoid(place) / sigmoid(-1.0)
        else:
            total -= profile.fn
    for t in said:
        if any(first <= t <= last for first, last in windows):
            continue
        before = [w for w in windows if w[1] < t]
        place = 3.0
        if before:
            first, last = max(before, key=lambda w: w[1])
            place = (t - last) / (last - first)
        total += profile.fp * sigmoid(place)
    return total


WINDOWS = [(200, 249), (400, 439), (700, 729)]


@pytest.mark.parametrize("name", nab_score.PROFILES)
def test_nab_score_is_that_of_plain_loops(rng, name):
    profile, mark = nab_score.PROFILES[name], nab_score.marks(1000, WINDOWS)
    scores = np.round(rng.random(1000), 2)  # with ties
    for threshold in (0.0, 0.5, 0.9, 0.99, 1.1):
        found = nab_score.raw_score(scores, threshold, mark, profile)
        wanted = naive_nab((scores >= threshold).tolist(), WINDOWS, profile)
        assert found == pytest.approx(wanted, abs=1e-9)


def test_nab_score_of_known_alerts():
    """No alert; one at each window's first row; one just behind a window; one far from all."""
    mark = nab_score.marks(1000, WINDOWS)

    def score(*rows: int) -> float:
        alerts = np.zeros(1000)
        alerts[list(rows)] = 1
        return nab_score.raw_score(alerts, 1.0, mark, STANDARD)

    assert score() == -3
    assert score(200, 400, 700) == pytest.approx(3)
    assert score(200, 220, 400, 700) == pytest.approx(3)  # a later one in a window adds nothing
    assert score(200, 400, 700, 100) == pytest.approx(3)  # on probation
    assert score(200, 400, 700, 160) == pytest.approx(3 - 0.11)  # before any window
    late = 0.11 * (2 / (1 + exp(5 * 1 / 49)) - 1)
    assert score(200, 400, 700, 250) == pytest.approx(3 + late)
    half = (2 / (1 + exp(-5 * 25 / 50)) - 1) / (2 / (1 + exp(-5)) - 1)
    assert score(225) == pytest.approx(half - 2)
    assert nab_score.normalised(-3, [mark], STANDARD) == 0
    assert nab_score.normalised(3, [mark], STANDARD) == 100


def test_nab_threshold_is_the_best_of_all(rng):
    marks = [nab_score.marks(1000, WINDOWS), nab_score.marks(600, [(300, 359)])]
    windows = [WINDOWS, [(300, 359)]]
    scores = [np.round(rng.random(len(m.worth)) ** 0.2, 3) for m in marks]
    threshold, best = nab_score.best_threshold(scores, marks, STANDARD)
    pairs = list(zip(scores, windows, strict=True))
    tried = {
        t: sum(naive_nab((s >= t).tolist(), w, STANDARD) for s, w in pairs)
        for t in [2.0, *np.unique(np.concatenate(scores)).tolist()]
    }
    assert best == pytest.approx(max(tried.values()), abs=1e-9)
    assert tried[min(threshold, 2.0)] == pytest.approx(best, abs=1e-9)


def test_windowed_gaussian_is_that_of_plain_loops(rng):
    values = 100 + np.cumsum(rng.normal(size=300))
    window, step, held, waiting, wanted = 50, 7, [], [], []
    mean, spread = 0.0, 1.0
    for v in values:
        z = abs(v - mean) / spread
        wanted.append(1 - 0.5 * drift_nab.erfc(z / np.sqrt(2)) if held else 0.0)
        if len(held) < window:
            held.append(v)
        else:
            waiting.append(v)
            if len(waiting) < step:
                continue
            held, waiting = held[step:] + waiting, []
        mean, spread = np.mean(held), np.std(held) or 1e-6
    assert np.allclose(drift_nab.tails(values, window, step), wanted)


def test_windowed_gaussian_scores_as_nab_has_it(data_dir):
    """All seven raw scores that NAB's repository holds, to its twelve digits."""
    if not (data_dir / drift_nab.FILE).is_file():
        pytest.skip("needs real data: there is no NAB in ONKEL_DATA")
    series = drift_nab.load(data_dir)
    rows = drift_nab.check(series, [s.marks for s in series])
    assert len(rows) == 7
    assert max(abs(row["difference"]) for row in rows) < 1e-10


# -- the other measures ------------------------------------------------------------------------


def test_skab_measure_is_that_of_plain_loops(rng):
    alerts = [rng.random(n) < 0.3 for n in (50, 80)]
    truth = [rng.random(n) < 0.4 for n in (50, 80)]
    count = {(a, t): 0 for a in (False, True) for t in (False, True)}
    for a, t in zip(np.concatenate(alerts), np.concatenate(truth), strict=True):
        count[bool(a), bool(t)] += 1
    tp, fp, fn = count[True, True], count[True, False], count[False, True]
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    found = drift_skab.measure(alerts, truth)
    assert found["F1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert found["FAR %"] == pytest.approx(100 * fp / (fp + count[False, False]))
    assert found["MAR %"] == pytest.approx(100 * (1 - recall))


def test_split_conformal_covers_what_is_exchangeable(rng):
    X = rng.normal(size=(6000, 1))
    y = X[:, 0] + rng.standard_t(3, size=6000)
    band = drift_intervals.conformal(lambda: drift_intervals.ridge(1.0), False, X, y)
    part = slice(drift_intervals.WAIT, None)
    found = drift_intervals.measure(band, y, part)
    assert abs(found["coverage %"] - 90) < 1.5
    inside = (band.low <= y) & (y <= band.high)
    late = inside[part]
    worst = min(late[i : i + 720].mean() for i in range(len(late) - 719))
    assert found["worst 720 rows %"] == pytest.approx(100 * worst)


def test_interval_score_is_least_at_the_quantiles(rng):
    y = rng.normal(size=20_000)

    def score(half: float) -> float:
        limits = np.full(len(y), half)
        return drift_intervals.score(drift_intervals.Band(-limits, limits), y).mean()

    best = 1.645  # leaves 10 % outside
    assert score(best) < min(score(best - 0.3), score(best + 0.3))


def test_a_choice_sees_the_first_rows_only():
    feed = drift_classes.sea(500)
    cut = meeting.head(feed, 100)
    assert np.array_equal(cut.Z, feed.Z[:100]) and len(cut.X) == 100
    for settings in drift_classes.METHODS.values():
        assert next(iter(settings)) == "as it comes"
        assert len(settings) <= 3


# -- tiny runs ---------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.skipif(core.BACKEND == "numpy", reason="slow in plain NumPy")
@pytest.mark.parametrize(
    "module", [drift_classes, drift_nab, drift_skab, drift_texts, knobs], ids=lambda m: m.__name__
)
def test_quick_runs(module, data_dir):
    study = module.run(True, data_dir)
    assert study.title and study.text and study.figures
    for caption, rows in study.tables:
        assert caption and rows
        assert all(isinstance(row, dict) for row in rows)


def test_studies_without_data_say_so():
    for module in (drift_nab, drift_skab, drift_intervals, drift_texts):
        study = module.run(True, None)
        assert "Left out" in study.text and not study.tables


def test_at_a_glance_published_detectors_count_and_a_window_is_no_lead():
    def table(*rows: dict) -> dict:
        return {"caption": "", "rows": list(rows)}

    ours = {"detector": "onkel: a", "standard": 42.0, "best": 44.0, "left out": 15.0}
    peer = {"detector": "River: b", "standard": 33.0, "best": 43.0, "left out": 12.0}
    held = {"detector": "numenta", "standard": 55.0}
    report = {"drift_nab": {"tables": [table(ours, peer), table(held), table()]}}
    first, best, left = evidence.glance(report)
    assert first["ahead"] == best["ahead"] == "the other"
    assert first["which of them"] == "numenta, published"
    assert left["which of them"] == "River: b" and left["ahead"] == "even"


def test_the_pages_have_a_place_for_every_study():
    pages = "".join((ROOT / "docs" / f"{p}.md").read_text("utf-8") for p in ("evidence", "knobs"))
    for name in (*evidence.STUDIES, "glance"):
        assert pages.count(f"<!-- {name}:begin -->") == pages.count(f"<!-- {name}:end -->") == 1
