"""The one table: what is in it is everywhere, and a code that is not in it is refused by name."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import onkel.core
from onkel import core, kernels, losses, rules
from onkel.core import layout, numpy_core
from onkel.core.layout import BudgetCode, LossCode, Op, Reads, RuleCode, SplitCode

CORE = Path(onkel.core.__file__).parent
compiled = pytest.mark.skipif(core.compiled is None, reason="no compiled core here")


def altered(tmp_path, *changes):
    """Return the table with some text replaced, loaded from a folder as a build does."""
    texts = {path: (CORE / path).read_text("utf-8") for path in ("layout.py", "density_table.py")}
    for old, new in changes:
        (path,) = [path for path, text in texts.items() if old in text]
        texts[path] = texts[path].replace(old, new, 1)
    for path, text in texts.items():
        (tmp_path / path).write_text(text, "utf-8")
    for name in [name for name in sys.modules if name.startswith("onkel_tables")]:
        del sys.modules[name]
    return generator().load(str(tmp_path))


def generator():
    spec = importlib.util.spec_from_file_location("generate", CORE / "src" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCALE = "SCALE = 8, Operation(1, a=SIZE, gpu=True)"
ROWS = {
    "kernel operation": (SCALE, f"{SCALE}\n    CAUCHY = 9, Operation(0, Reads.DIST2, a=SIZE)"),
    "loss": ("EXPONENTIAL = 8, True", "EXPONENTIAL = 8, True\n    PINBALL = 9, False"),
    "rule": ("ROMMA = 3, False", "ROMMA = 3, False\n    PASSIVE = 4, False"),
    "budget": ("OLDEST = 0, True", "OLDEST = 0, True\n    LEAST = 1, False"),
    "count": ("ALARMED = 15", "ALARMED = 15\n    FAULTS = 16"),
    "level": ("LEVELS = 33", "LEVELS = 34"),
}
CASES = {"kernel operation": "kCauchy", "loss": "kPinball", "rule": "kPassive", "budget": "kLeast"}


def test_the_table_needs_the_standard_library_alone():
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('g', {str(CORE / 'src/generate.py')!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        f"table = module.load({str(CORE)!r})\n"
        "print(table.fingerprint(), 'numpy' in sys.modules, 'onkel' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [str(layout.fingerprint()), "False", "False"], done.stderr


@pytest.mark.parametrize("what", ROWS)
def test_a_changed_table_has_another_fingerprint(tmp_path, what):
    changed = altered(tmp_path, ROWS[what])
    assert changed.fingerprint() != layout.fingerprint()
    assert f"{changed.fingerprint()}u" in generator().header(changed)


def test_every_fact_of_an_operation_counts(tmp_path):
    changed = altered(tmp_path, ("vanishes=True, gpu=True)", "vanishes=True, gpu=False)"))
    assert changed.fingerprint() != layout.fingerprint()
    same = altered(tmp_path)
    assert same.fingerprint() == layout.fingerprint()


def test_codes_with_a_gap_are_refused_by_the_build(tmp_path):
    gap = altered(tmp_path, ("ROMMA = 3, False", "ROMMA = 5, False"))
    with pytest.raises(SystemExit, match="codes of RuleCode must be 0, 1, 2"):
        generator().header(gap)


@compiled
def test_a_core_of_another_table_is_refused(monkeypatch):
    monkeypatch.setattr(core, "fingerprint", lambda: 1)
    monkeypatch.delenv("ONKEL_PURE", raising=False)
    with pytest.raises(ImportError, match=r"layout\.py\)\. Reinstall onkel"):
        core._load_native()


COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("what", [None, *CASES])
def test_a_row_without_a_case_does_not_compile(tmp_path, what):
    """C++ refuses to be built until the new row has its case, and names it."""
    table = altered(tmp_path, *([ROWS[what]] if what else []))
    (tmp_path / "algebra.hpp").write_text(generator().header(table), "utf-8")
    program = tmp_path / "try.cpp"
    program.write_text('#include "steps.hpp"\n#include "formulas.hpp"\n', "utf-8")
    flags = ["-std=gnu++20", "-fsyntax-only", "-Werror=switch", "-Wno-psabi"]
    places = [f"-I{tmp_path}", f"-I{CORE / 'src'}"]
    done = subprocess.run(
        [COMPILER, *flags, *places, str(program)], capture_output=True, text=True, check=False
    )
    if what is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert CASES[what] in done.stderr and "not handled in switch" in done.stderr


def test_cmake_closes_the_switches():
    text = (CORE.parents[1] / "CMakeLists.txt").read_text("utf-8")
    assert "-Werror=switch" in text
    for source in (CORE / "src").glob("*.[ch]pp"):
        assert not re.search(r"^\s*default:", source.read_text("utf-8"), re.M), source.name


# -- made-up codes -----------------------------------------------------------------------------

PLACES = {"C++": lambda nodes: core.compiled.Program(nodes), "Python": layout.check_program}


@pytest.mark.parametrize("where", PLACES)
def test_what_is_no_program_is_refused(where):
    if where == "C++" and core.compiled is None:
        pytest.skip("no compiled core here")
    refuse = PLACES[where]
    wrong = {
        r"unknown kernel operation 99; .*8 SCALE.*add a row": [(99, 1.0, 0.0, 0)],
        r"unknown kernel operation -1; ": [(-1, 1.0, 0.0, 0)],
        r"a kernel program has 1 to 999 operations": [],
        r"kernel operation SUM takes more than": [(4, 0.0, 0.0, 0), (6, 0.0, 0.0, 0)],
        r"must leave one value": [(4, 0.0, 0.0, 0)] * 2,
        r"at most 16 values at once": [(4, 0.0, 0.0, 0)] * 17,
        r"kernel operation GAUSSIAN: a must lie in \[0.*inf\]; got -1": [(0, -1.0, 0.0, 0)],
        r"kernel operation POLYNOMIAL: c must lie in": [(5, 1.0, 1.0, -2)],
        r"kernel operation LAPLACIAN: a must .*got nan": [(1, float("nan"), 0.0, 0)],
    }  # fmt: skip
    for words, nodes in wrong.items():
        with pytest.raises(ValueError, match=words):
            refuse([(int(op), a, b, c) for op, a, b, c in nodes])


@compiled
def test_codes_from_python_are_checked_where_they_come_in():
    native = core.compiled
    with pytest.raises(ValueError, match=r"unknown loss 9; this core was built with 0 SOFT_MARGIN"):
        native.Loss(9)
    with pytest.raises(ValueError, match=r"unknown rule 4; .*3 ROMMA.*build the core again"):
        native.Rule(4)
    with pytest.raises(ValueError, match=r"unknown budget 4; .*3 PROJECT"):
        native.Ring(0, 0, 10, len(BudgetCode))
    with pytest.raises(ValueError, match=r"unknown split 2; .*1 POLY"):
        native.Split(2, 1.0, [1.0])
    assert native.Loss(len(LossCode) - 1).code == len(LossCode) - 1
    assert native.Rule(len(RuleCode) - 1).code == len(RuleCode) - 1
    assert native.Ring(0, 0, 10, 0).budget == BudgetCode.OLDEST
    assert len(SplitCode) == 2


def test_numpy_refuses_a_made_up_operation():
    with pytest.raises(ValueError, match=r"unknown kernel operation 99; the table has 0 GAUSSIAN"):
        numpy_core.evaluate([(99, 1.0, 0.0, 0)], None, np.ones(3), None)
    with pytest.raises(ValueError, match="unknown kernel operation 99"):
        core.evaluate([(99, 1.0, 0.0, 0)], None, np.ones(3), None)


def test_numpy_refuses_a_row_without_a_branch(monkeypatch):
    row = SimpleNamespace(name="CAUCHY", operation=layout.Operation(0, Reads.DIST2))
    monkeypatch.setattr(numpy_core, "operation_of", lambda code: row)
    with pytest.raises(NotImplementedError, match="CAUCHY is in the table, but has no branch"):
        numpy_core.evaluate([(9, 1.0, 0.0, 0)], None, np.ones(3), None)


@compiled
def test_a_loss_or_rule_of_another_table_is_refused_by_a_model():
    """What a class says of itself reaches the core as a code: it is looked up there."""

    class Forged(losses.Squared):
        def native(self):
            return layout.NativeLoss(77)

    loss = Forged()
    with pytest.raises(ValueError, match="unknown loss 77"):
        core.Stepper(loss, rules.Norma().bind(loss), True).native()


# -- the table against what it says ----------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in Op if op.operation.pops == 0])
def test_the_facts_of_an_operation(op, rng):
    """Reads that and no more; exponentials square where `a` doubles; what vanishes is gone."""
    row = op.operation
    given = {r: rng.random(50) + 0.1 for r in (Reads.DOT, Reads.DIST2, Reads.DIST1)}
    own = [given[r] if r == row.reads else None for r in given]
    node = (int(op), 0.7, 0.3, 3)
    value = numpy_core.evaluate([node], *own)
    assert np.array_equal(value, numpy_core.evaluate([node], *given.values()))
    if row.exponential:
        twice = numpy_core.evaluate([(int(op), 1.4, 0.3, 3)], *own)
        np.testing.assert_allclose(twice, value**2, rtol=1e-13)
    if row.vanishes:
        far = 800.0 / 0.7
        away = [None if a is None else np.array([far**2 if row.rooted else far]) for a in own]
        assert numpy_core.evaluate([node], *away)[0] == 0


def test_depth_and_reads():
    kernel = kernels.Gaussian(0.1) * kernels.Laplacian(0.2) + 0.5 * kernels.Linear()
    program = kernel.program()
    assert layout.depth_of(program) == 2
    assert layout.reads_of(program) == {Reads.DOT, Reads.DIST2, Reads.DIST1}
