"""The documentation is under test: its code runs, its numbers hold, its lists are complete."""

from __future__ import annotations

import inspect
import itertools
import re
import runpy
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.spark_session import why_not

import onkel
from onkel import Detector, KernelClassifier, KernelRegressor, NoveltyDetector, losses, rules
from onkel.streams import sources

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
if not DOCS.is_dir():
    pytest.skip("the documentation is not here", allow_module_level=True)

API = sorted((DOCS / "api").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *API]
TEXTS = [*PAGES, ROOT / "DESIGN.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
NEEDS = {
    "river": "river.base",
    "from_river": "river.base",
    "from_sklearn": "sklearn",
    "service": "starlette",
    "command_line": "click",
    "delivery": "click",
    "rows": "click",
    "replay": "click",
    "spark": "pyspark",
    "spark_partitions": "pyspark",
}
"""Pages whose code needs an extra."""
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1\s*$", re.M | re.S)
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yield (line before it, code, text block right after it) of each Python block to be run."""
    text = path.read_text("utf-8")
    fences = list(FENCE.finditer(text))
    for match, after in itertools.zip_longest(fences, fences[1:]):
        if match[2].strip() != "python":
            continue
        shown = None
        if after and after[2].strip() == "text" and not text[match.end() : after.start()].strip():
            shown = after[3]
        yield text.count("\n", 0, match.start(3)), match[3], shown


def agree(shown: str, printed: str) -> bool:
    """Whether a number, rounded to the digits that the page shows, is the number on the page."""
    page, value = Decimal(shown), Decimal(printed)
    last = Decimal(1).scaleb(page.as_tuple().exponent)
    return abs(value - page) <= last / 2


def same(shown: str, printed: str) -> bool:
    """Whether two texts agree: their words and signs, and their numbers to the digits shown."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    return all(map(agree, NUMBER.findall(shown), NUMBER.findall(printed)))


class Checked:
    """A print that compares its line with the comment behind it; lines without one are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text("utf-8").splitlines()
        self.kept: list[str] = []

    def __call__(self, *values: Any) -> None:
        number = inspect.currentframe().f_back.f_lineno
        _, comment, shown = self.lines[number - 1].partition("  # ")
        printed = " ".join(map(str, values))
        if not comment:
            self.kept += printed.splitlines()
        elif not same(shown, printed):
            pytest.fail(f"{name_of(self.path)}:{number} prints {printed!r}, not {shown!r}")


def run(path: Path, namespace: dict[str, Any], line: int, code: str, shown: str | None) -> None:
    """Run one block of a page, and compare what it prints with what the page shows."""
    show = namespace["print"] = Checked(path)
    exec(compile("\n" * line + code, str(path), "exec", dont_inherit=True), namespace)
    if shown is not None:
        wanted = shown.splitlines()
        agree = len(wanted) == len(show.kept) and all(map(same, wanted, show.kept))
        assert agree, f"{name_of(path)}, after line {line}: prints {show.kept}, not {wanted}"


RUN = [p for p in PAGES if any(blocks(p)) and p.stem != "gallery"]


# These train for long, or start processes: only the long run has them.
LONG_PAGES = {
    "additive", "choosing", "command_line", "delivery", "detection", "feedback", "fleet",
    "from_river", "from_sklearn", "kernels", "late_labels", "merging", "paper_norma_2001",
    "regression", "replay", "river", "rows", "self_tuning", "service", "text", "theory", "time",
}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.long if p.stem in LONG_PAGES else ()) for p in RUN],
    ids=name_of,
)  # the README's blocks run on their own
def test_python_blocks_run_and_print_what_they_say(path: Path) -> None:
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"the page {path.stem} needs an extra")
    if NEEDS.get(path.stem) == "pyspark" and why_not():
        pytest.skip(why_not())
    namespace: dict[str, Any] = {"__name__": "docs"}
    for line, code, shown in blocks(path):
        run(path, {"__name__": "docs"} if path.stem == "README" else namespace, line, code, shown)


GALLERY = DOCS / "gallery.md"


@pytest.mark.long
@pytest.mark.parametrize("block", list(blocks(GALLERY)), ids=lambda block: f"line {block[0]}")
def test_each_example_of_the_gallery_runs_alone_and_draws_one_figure(
    block: tuple[int, str, str | None],
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot", reason="the gallery needs matplotlib")
    plt.switch_backend("Agg")
    plt.close("all")
    run(GALLERY, {"__name__": "gallery"}, *block)
    drawn = plt.get_fignums()
    plt.close("all")
    assert len(drawn) == 1


def test_the_gallery_shows_under_each_example_what_it_draws() -> None:
    pytest.importorskip("matplotlib", reason="the gallery needs matplotlib")
    examples = runpy.run_path(str(DOCS / "figures" / "gallery.py"))["examples"]()
    assert [code for code, _ in examples] == [code for _, code, _ in blocks(GALLERY)]
    names = [f"gallery-{i + 1}.png" for i in range(len(examples))]
    assert [name for _, name in examples] == names
    assert sorted(p.name for p in (DOCS / "figures").glob("gallery-*.png")) == sorted(names)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("0.01", "0.014"),
        ("0.01", "0.006"),
        ("0.015", "0.015"),
        ("0.90", "0.9"),
        ("1e-05", "1.4e-05"),
        ("-0.5", "-0.54"),
        ("0.95 [1 2]", "0.951 [1 2]"),
        ("{'rate': 0.137}", "{'rate':  0.1365}"),
    ],
)
def test_numbers_agree_to_the_digits_shown(shown: str, printed: str) -> None:
    assert same(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("0.01", "0.016"),
        ("0.01", "0.0"),
        ("0.87", "0.9"),
        ("0.010", "0.011"),
        ("39", "37"),
        ("1e-05", "1.6e-05"),
        ("0.5", "-0.5"),
        ("['a' 'b']", "['a' 'c']"),
        ("1 2", "1"),
        ("nan", "0.5"),
    ],
)
def test_numbers_that_differ_in_a_digit_shown_are_noticed(shown: str, printed: str) -> None:
    assert not same(shown, printed)


def test_every_diagnostic_is_explained() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    models = [
        KernelClassifier(average=True).fit(X, X[:, 0] > 0),
        KernelRegressor(loss=losses.Huber(nu=0.1), rule=rules.Norma(track_norm=True)).fit(
            X, X[:, 0]
        ),
        NoveltyDetector().fit(X),
    ]
    text = (DOCS / "diagnostics.md").read_text("utf-8")
    reports = [m.diagnostics_ for m in models]
    keys = {key for report in reports for key in (*report, *report["scale"])}
    missing = sorted(key for key in keys if f"`{key}`" not in text)
    assert not missing, f"docs/diagnostics.md does not explain {missing}"


def test_every_diagnostic_of_the_detector_is_explained() -> None:
    found = Detector().fit(np.random.default_rng(0).normal(size=(50, 2))).diagnostics_
    text = (DOCS / "detection.md").read_text("utf-8")
    missing = sorted(key for key in found if f"`{key}`" not in text)
    assert not missing, f"docs/detection.md does not explain {missing}"


def documented() -> set[str]:
    """Return the full names of what the pages in docs/api describe."""
    text = "\n".join(p.read_text("utf-8") for p in API)
    names = set(re.findall(r"^\.\. auto(?:class|function):: ([\w.]+)$", text, re.M))
    for module in re.findall(r"^\.\. automodule:: ([\w.]+)\n +:members:$", text, re.M):
        names |= {f"{module}.{n}" for n in import_module(module).__all__}
    return names


MODULES = (
    "alerting", "bounds", "evaluate", "expansions", "explain", "kernels", "losses", "rules",
    "schedules", "series", "streams", "streams.sources",
)  # fmt: skip


def test_every_public_name_is_in_the_api_pages() -> None:
    names = {f"onkel.{n}" for n in onkel.__all__ if not isinstance(getattr(onkel, n), ModuleType)}
    for module in map(import_module, (f"onkel.{m}" for m in MODULES)):
        public = (n for n in module.__all__ if callable(getattr(module, n)))
        names |= {f"{module.__name__}.{n}" for n in public}
    missing = sorted(names - documented())
    assert not missing, f"a line in a page of docs/api is missing for {missing}"


def test_the_api_page_lists_its_topics() -> None:
    text = (DOCS / "api.md").read_text("utf-8") + (DOCS / "api" / "bounds.md").read_text("utf-8")
    stray = [p.stem for p in API if f"{p.stem}.md)" not in text]
    assert not stray, f"docs/api.md does not link to {stray}"
    modules = [n for n in onkel.__all__ if isinstance(getattr(onkel, n), ModuleType)]
    assert not [n for n in modules if f"`{n}`" not in text]


def test_signatures_are_those_of_inspect_and_short() -> None:
    shown = runpy.run_path(str(DOCS / "conf.py"))["signature_of"]
    text, _ = shown(None, "class", "onkel.KernelClassifier", KernelClassifier)
    assert text.startswith("(kernel='gaussian', loss='soft_margin', rule='norma'")
    assert shown(None, "class", "Reading", sources.Reading)[0].count("=...") == 2  # two factories
    assert shown(None, "method", "bind", rules.Norma.bind) == ("(loss, space=...)", "")
    assert shown(None, "attribute", "losses", rules.Norma.losses) is None


@pytest.mark.parametrize(("name", "most"), [("README.md", 110), ("DESIGN.md", 160)])
def test_the_first_pages_stay_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= most


def test_every_name_in_a_registry_is_written_somewhere() -> None:
    text = "\n".join(p.read_text("utf-8") for p in PAGES)
    for part in ("kernels", "losses", "rules", "expansions"):
        for name in getattr(onkel, part).REGISTRY:
            assert f'"{name}"' in text, f'no page mentions {part} "{name}"'


def test_the_detectors_default_rule_is_the_documented_one() -> None:
    """Every name stands for its rule as it comes; the detector's is the paper's, support nu."""
    assert NoveltyDetector().part("rule") == rules.Norma()
    for kind in (NoveltyDetector, KernelClassifier, KernelRegressor):
        for name, rule in rules.REGISTRY.items():
            assert kind(rule=name).part("rule") == rule(), (kind, name)
    page = (ROOT / "docs/novelty.md").read_text("utf-8")
    assert f"`r = {rules.Norma().threshold_rate:g}`, the default, is the paper's" in page
    assert "`support=None`, the default, means ν" in page


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_relative_links_resolve(path: Path) -> None:
    text = FENCE.sub("", path.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name_of(path)} links to {target}"
        if anchor and there.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", there.read_text("utf-8"), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", t.lower()).strip().replace(" ", "-") for t in titles}
            assert anchor in slugs, f"{name_of(path)} links to {target}"


def test_every_page_is_reachable() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    stray = [p.stem for p in DOCS.glob("*.md") if p.stem != "index" and p.stem not in index]
    assert not stray, f"docs/index.md leaves out {stray}"
