"""The documentation is under test: its code runs, its numbers hold, its lists are complete."""

from __future__ import annotations

import inspect
import itertools
import math
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.spark_session import why_not

import onkel
from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, losses, rules

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
if not DOCS.is_dir():
    pytest.skip("the documentation is not here", allow_module_level=True)

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
TEXTS = [*PAGES, ROOT / "DESIGN.md", ROOT / "CHANGELOG.md"]
NEEDS = {
    "river": "river.base",
    "from_river": "river.base",
    "from_sklearn": "sklearn",
    "service": "starlette",
    "command_line": "click",
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


def same(shown: str, printed: str) -> bool:
    """Whether two texts agree, numbers to a tenth or 0.02 (the core may round differently)."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.1, abs_tol=0.02) for a, b in pairs)


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


# These take seconds each.
LONG_PAGES = {
    "additive", "choosing", "from_river", "from_sklearn", "paper_norma_2001", "text", "theory"
}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.long if p.stem in LONG_PAGES else ()) for p in RUN],
    ids=name_of,
)
def test_python_blocks_run_and_print_what_they_say(path: Path) -> None:
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"the page {path.stem} needs an extra")
    if NEEDS.get(path.stem) == "pyspark" and why_not():
        pytest.skip(why_not())
    namespace: dict[str, Any] = {"__name__": "docs"}
    for line, code, shown in blocks(path):
        run(path, namespace, line, code, shown)


GALLERY = DOCS / "gallery.md"


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


def test_the_comparison_of_prints_would_notice() -> None:
    assert same("0.95 [1 2]", "0.951 [1 2]")
    assert not same("0.95", "0.85")
    assert not same("['a' 'b']", "['a' 'c']")
    assert not same("1 2", "1")


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


def test_every_public_name_is_in_the_api_page() -> None:
    text = (DOCS / "api.md").read_text("utf-8")
    modules = ("kernels", "losses", "rules", "expansions", "schedules")
    names = {n: n for n in onkel.__all__}
    names |= {f"{m}.{n}": n for m in modules for n in getattr(onkel, m).__all__}
    missing = sorted(full for full, n in names.items() if not re.search(rf"\b{n}\b", text))
    assert not missing, f"docs/api.md does not mention {missing}"


def test_every_name_in_a_registry_is_written_somewhere() -> None:
    text = "\n".join(p.read_text("utf-8") for p in PAGES)
    for part in ("kernels", "losses", "rules", "expansions"):
        for name in getattr(onkel, part).REGISTRY:
            assert f'"{name}"' in text, f'no page mentions {part} "{name}"'


def test_the_detectors_default_rule_is_the_documented_one() -> None:
    rule = NoveltyDetector().get_params()
    shown = "threshold_rate={rule__threshold_rate:g}, support_rate={rule__support_rate:g}"
    for name in ("docs/novelty.md", "docs/api.md", "DESIGN.md"):
        assert shown.format(**rule) in (ROOT / name).read_text("utf-8"), name


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
