"""Rows of codes and numbers with device="cuda" beside the same on the CPU; formulas for pieces."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from helpers import coded
from helpers.agreement import close
from helpers.fingerprint import fingerprint as bits
from helpers.on_gpu import DEVICE, fewer, torch
from helpers.sizes import size

import onkel
from onkel import Classifier, KernelClassifier, Regressor, expansions, kernels, losses, rules
from onkel.core.frame import Frame
from onkel.gpu import launch
from onkel.gpu.bank import GpuBank
from onkel.gpu.device_terms import DeviceTerms
from onkel.gpu.learner import GpuLearner
from onkel.gpu.moments import take_in
from onkel.gpu.opening import opened
from onkel.inputs import RefusedRow
from onkel.learner import Settings, dump, resumed
from onkel.saved import Saved
from onkel.scaling import Moments

Window = expansions.Window
ROWS, TERMS = size(20, fewer(48)), size(8, fewer(16))


def stream(rng, rows=ROWS):
    """Rows whose numbers change their scale halfway, and a target for which both parts matter."""
    X = coded.rows(rng, rows, dtype=np.float32)
    y = np.sin(X[:, 3]) + (X[:, 0] == coded.FAR) + 0.1 * rng.normal(size=rows)
    X[rows // 2 :, 3:] *= 20
    return X, y[:, None]


def settings(kernel, **more):
    given = {"expansion": Window(terms=TERMS), "scale": True, "precision": "float32", **more}
    rule = given.pop("rule", rules.Norma(0.3, memory=32.0))
    return Settings(kernel, given.pop("loss", losses.Absolute()), rule, device="cuda", **given)


def on_both(made, width=7, apart=coded.U):
    """The same learner on the CPU and on the device."""
    group = [made] if isinstance(made, Settings) else made
    return [
        opened([replace(s, device=d) for s in group], width, 1, np.float32, apart)
        for d in ("cpu", "cuda")
    ]


def learn(learner, X, Y):
    return learner.learn(X, Y, np.ones(len(X)))[0]


# -- pieces -------------------------------------------------------------------------------------


@pytest.mark.few
@pytest.mark.parametrize("precision", ["float32", "tf32x3", "tf32"])
@pytest.mark.parametrize(
    ("codes", "numbers"), size([(3, 4), (27, 0)], [(3, 4), (27, 0), (1, 130), (16, 3)])
)
@pytest.mark.parametrize("name", size(("gaussian", "sum"), coded.KERNELS))
def test_sums_and_sizes(name, codes, numbers, precision, rng):
    """Against a formula, pair by pair: few codes and many, with numbers and without."""
    kernel, formula = coded.KERNELS[name]
    apart = tuple(float(u) for u in rng.uniform(0.1, 2.0, codes) / codes)
    X, Z = coded.rows(rng, 9, codes, numbers), coded.rows(rng, 40, codes, numbers)
    X[:, codes:], Z[:, codes:] = X[:, codes:] / (numbers or 1), Z[:, codes:] / (numbers or 1)
    X[0] = Z[3]
    frame = Frame.plain(np.zeros(codes + numbers), np.float32, False, apart)
    terms = DeviceTerms(kernel, frame, 1, 64, DEVICE, precision)
    a = rng.normal(size=40)
    terms.grow(40)
    terms.count = 40
    terms.held.rows[:40] = torch.from_numpy(Z).to(DEVICE)
    terms.ready()
    terms._take_coef(torch.from_numpy(np.pad(a, (0, terms.held.slots - 40))[None]).to(DEVICE))
    k = naive.on_codes(formula, apart)
    want = np.array([[k(list(x), list(z)) for z in Z] for x in X])
    limit = 1e-2 if precision == "tf32" else 1e-5
    close(terms.scores(torch.from_numpy(X).to(DEVICE))[:, 0], want @ a, limit, "sums")
    found = terms.held.diag[0, :40].cpu().numpy()
    close(found, [k(list(z), list(z)) for z in Z], limit, "k(x, x)")


def test_codes_take_no_part_in_products(rng):
    """Operands are as wide as there are numbers; the memory of a term is counted so."""
    frame = Frame.plain(np.zeros(40), np.float32, True, (1.0,) * 34)
    for kernel, wide, tall in ((kernels.Gaussian(), 16, 34), (kernels.Laplacian(), 0, 34 + 8)):
        terms = DeviceTerms(kernel.resolve(40), frame, 1, 64, DEVICE, "tf32")
        assert (terms.launcher.wide, terms.launcher.tall) == (wide, tall)
        assert terms.bytes_of_one() == 4 * (40 + wide + tall + 2) + 12 + 8
    plain = Frame.plain(np.zeros(40), np.float32, True)
    assert DeviceTerms(kernels.Gaussian(0.1), plain, 1, 64, DEVICE, "tf32").launcher.tall == 0


def test_moments_leave_codes_out(rng):
    X = coded.rows(rng, 60)
    one, other = (Moments(7, 20.0, 1e-7, steady=True, codes=3) for _ in range(2))
    one.update(X)
    for part in (X[:1], X[1:20], X[20:]):
        take_in(other, torch.from_numpy(part).to(DEVICE))
    for name in ("mean", "variance", "seen"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)
    assert not other.mean[:3].any() and not other.seen[:3].any()


# -- learners -----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", size(["product"], coded.KERNELS))
def test_a_window_as_on_the_cpu(name, rng):
    """Scores before each row, in calls of any size; the terms' codes as they came."""
    X, Y = stream(rng)
    cpu, gpu = on_both(settings(coded.KERNELS[name][0]))
    assert type(gpu) is GpuLearner and gpu.apart == coded.U
    got = [learn(gpu, X[i], Y[i]) for i in np.split(np.arange(ROWS), [1, 3, size(9, 15)])]
    close(np.concatenate(got), learn(cpu, X, Y), 2e-4, "scores")
    close(gpu.scores(X), cpu.scores(X), 2e-4, "later")
    np.testing.assert_array_equal(gpu.terms.raw_rows()[:, :3], cpu.terms.raw_rows()[:, :3])
    np.testing.assert_allclose(gpu.moments.mean, cpu.moments.mean, rtol=1e-6)


@pytest.mark.parametrize(
    "rule", size([rules.Projection(radius=1.5)], [rules.Projection(radius=1.5), rules.Alma()]),
    ids=repr,
)  # fmt: skip
@pytest.mark.long
def test_rules_that_divide_or_keep_a_norm(rule, rng):
    """They read k(x, x), and old terms against old terms."""
    X, Y = stream(rng)
    Y = np.where(np.median(Y) < Y, 1.0, -1.0)
    made = settings(kernels.Gaussian(0.2), loss=losses.SoftMargin(), rule=rule, intercept=False)
    cpu, gpu = on_both(made)
    close(learn(gpu, X, Y), learn(cpu, X, Y), 2e-4, "scores")
    close(gpu.norm2(), cpu.norm2(), 2e-4, "norm")


@pytest.mark.long
@pytest.mark.parametrize("precision", size(["tf32x3"], ["float32", "tf32x3"]))
def test_a_bank_as_on_the_cpu(precision, rng):
    X, Y = stream(rng, size(10, fewer(ROWS)))
    names = ("gaussian", "laplacian", "sum") if precision == "float32" else ("gaussian", "matern")
    made = [settings(coded.KERNELS[name][0], precision=precision) for name in names]
    made[-1:] = [made[-1], replace(made[-1], rule=rules.Norma(0.1, memory=32.0))]
    cpu, gpu = on_both(made)
    assert type(gpu) is GpuBank
    close(learn(gpu, X, Y), learn(cpu, X, Y), 2e-4, "scores")
    close(gpu.scores(X), cpu.scores(X), 2e-4, "later")
    assert gpu.size == cpu.size


@pytest.mark.long
def test_files_hold_no_word_of_the_device(rng):
    """Saved there and loaded here, and back: the same bits go on."""
    X, Y = stream(rng, 16)
    made = settings(kernels.Laplacian(0.15))
    _, gpu = on_both(made)
    learn(gpu, X[:12], Y[:12])
    saved = dump(gpu)
    cpu = resumed(replace(made, device="cpu"), Saved(saved))
    assert cpu.apart == coded.U and bits(dump(cpu)) == bits(saved)
    again = resumed(made, Saved(dump(cpu)), lambda one, *shape: opened([one], *shape))
    assert type(again) is GpuLearner
    want = gpu.scores(X)
    close(cpu.scores(X), want, 1e-5, "here")
    np.testing.assert_array_equal(again.scores(X), want)
    assert np.array_equal(learn(again, X[12:], Y[12:]), learn(gpu, X[12:], Y[12:]))


def test_what_is_no_code_is_refused(rng):
    X, Y = stream(rng, 16)
    _, gpu = on_both(settings(kernels.Gaussian(0.2)))
    learn(gpu, X[:6], Y[:6])
    before, wrong = bits(dump(gpu)), X[6:].copy()
    wrong[7, 2] = 0.5
    with pytest.raises(RefusedRow, match="Row 7: its first 3 values must be codes"):
        learn(gpu, wrong, Y[6:])
    with pytest.raises(RefusedRow, match="Row 7"):
        gpu.scores(wrong)
    assert bits(dump(gpu)) == before


# -- estimators ---------------------------------------------------------------------------------


def table(rng, rows=16):
    """A table of a colour, a text, a number with gaps and one without; labels from all."""
    colours = rng.choice(["red", "green", "blue"], rows)
    texts = rng.choice(["late and broken", "all well", "late"], rows)
    x, y = rng.normal(size=(2, rows)) * [[1.0], [50.0]]
    label = np.where((colours == "red") ^ (x > 0), "yes", "no")
    gaps = [None if i % 7 == 3 else float(v) for i, v in enumerate(y)]
    columns = {"colour": colours.tolist(), "text": texts.tolist(), "x": x.tolist(), "y": gaps}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], (
        label
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", size([KernelClassifier], [KernelClassifier, Classifier]))
def test_tables_as_on_the_cpu(kind, rng, tmp_path):
    """Words, gaps and numbers; saved, moved to the CPU and back. Linear members stay on the CPU."""
    rows, y = table(rng, size(12, fewer(24)))
    own = {"columns": {"text": "text"}}
    here, there = kind(**own), kind(**own, device="cuda")
    for model in (here, there):
        model.partial_fit(rows[:-4], y[:-4])
    want = here.decision_function(rows)
    close(there.decision_function(rows), want, 1e-4, "decisions")
    if kind is Classifier:
        kinds = {type(part).__name__ for part, _ in there._learner.parts}
        assert kinds == {"GpuBank", "PrimalLearner", "SecondOrderLearner"}
    there.save(tmp_path / "model")
    again = onkel.load(tmp_path / "model")
    assert again.device == "cuda" and again.plan_ == there.plan_
    np.testing.assert_array_equal(again.decision_function(rows), there.decision_function(rows))
    again.to("cpu")
    close(again.decision_function(rows), want, 1e-4, "moved")
    for model in (here, there, again.to("cuda")):
        model.partial_fit(rows[-4:], y[-4:])
        close(model.decision_function(rows), here.decision_function(rows), 1e-4, "later")


@pytest.mark.long
def test_a_regressor_of_tables(rng):
    rows, _ = table(rng, 24)
    y = np.array([row["x"] + (row["colour"] == "red") for row in rows])
    here, there = Regressor(), Regressor(device="cuda")
    want, got = (model.predict_then_learn(rows, y) for model in (here, there))
    close(got, want, 1e-4, "predictions")
    one, other = here.explain(rows[0]), there.explain(rows[0])
    assert [f.name for f in one.features] == [f.name for f in other.features]


def test_no_codes_are_no_codes():
    """Rows of numbers are what they were: nothing is turned that was not."""
    terms = DeviceTerms(kernels.Gaussian(0.1), Frame.plain(np.zeros(5), np.float32, True), 1, 64,
                        DEVICE, "float32")  # fmt: skip
    assert terms.launcher.codes == 0 and terms.launcher.numbers == 5
    assert not terms.launcher.apart.any() and terms.launcher.dp == launch.padded(5)
