"""Detector with device="cuda" beside the same on the CPU: judged blocks, moves, files, refusals."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers.on_gpu import DEVICE, torch
from helpers.sizes import size

import onkel
from onkel import Detector, files, merge
from onkel.core import density as core_density
from onkel.core.density_table import Count
from onkel.gpu import densities, density, devices

ROWS = size(1500, 4000)
ASKED = ("score_samples", "p_samples", "decision_function", "rank_samples", "predict")
STREAMS = {
    "order does not matter": (8, 0.0),
    "tied": (8, 0.9),
    "half tied": (8, 0.4),
    "one feature": (1, 0.0),
    "one tied feature": (1, 0.9),
    "many features": (70, 0.9),
    "too many to turn": (core_density.WHOLE_UP_TO + 4, 0.5),
}


def stream(rng, rows, d, tied):
    """Rows far from standardised, each drawn towards the one before."""
    X = rng.normal(size=(rows, d))
    for i in range(1, rows):
        X[i] += tied * X[i - 1]
    return (X + 2.0) * np.linspace(0.5, 20, d)


def both(X, **own):
    """The same detector twice, the second with a device."""
    return [Detector(**own, device=name).fit(X) for name in ("cpu", "cuda")]


def asked(rng, X):
    """Rows to be judged: usual ones, those of the past, gross ones, all alike."""
    far = X[:200] + rng.normal(size=(200, X.shape[1])) * X.std(0) * 10
    return np.concatenate([X[-400:], X[:200], far, X[:20] * 1e6, np.repeat(X[:1], 50, axis=0)])


def one_rank_off(a, b, n):
    """Where two -log p agree to rounding, or are one rank among n apart."""
    return (np.abs(a - b) <= 1e-5 * (1 + np.abs(a))) | (
        np.abs(np.exp(-a) - np.exp(-b)) * (n + 1) < 1.01
    )


def agree(a, b, rows):
    """Views to rounding, or one rank off where two densities are the same but for rounding."""
    (want, members), (got, theirs) = (m._learner.judged(rows, members=True) for m in (a, b))
    assert b._learner._judge is not None  # the device has been asked
    terms, late = a._learner.count(Count.SIZE), a._learner.count(Count.LATE_SIZE)
    for view in range(8):
        n = late if view == 4 else terms
        assert one_rank_off(members[:, view], theirs[:, view], n).all(), view
    close = (np.abs(members - theirs) <= 1e-5 * (1 + np.abs(members))).all(axis=1)
    assert close.mean() > 0.99
    assert np.all(np.abs(want - got)[close, 3] <= 1e-4 * (1 + np.abs(want[close, 3])))
    assert one_rank_off(-want[close, 0], -got[close, 0], a._learner.count(Count.HISTORY)).all()
    assert (np.abs(want - got)[:, 0] < 1e-4 * (1 + np.abs(want[:, 0]))).mean() > 0.99
    assert np.array_equal(want[:, 1], got[:, 1])
    return members, theirs


@pytest.mark.parametrize("name", size(["tied", "one feature"], STREAMS))
def test_as_on_the_cpu(name, rng):
    """Every view, joined score and log p; what is learned is the same, bit for bit."""
    X = stream(rng, ROWS, *STREAMS[name])
    a, b = both(X)
    members, _ = agree(a, b, asked(rng, X))
    assert (members[0, 8] > 0) == (STREAMS[name][1] > 0)
    assert files.dumps(a) == files.dumps(b.to("cpu"))


@pytest.mark.parametrize("ask", size(ASKED[1:2], ASKED))
def test_all_that_only_judges(ask, rng):
    """The same answers, and rows learned afterwards are seen by the next block."""
    X = stream(rng, 2000, 3, 0.8)
    a, b = both(X[:1000])
    for _ in range(2):
        want, got = (getattr(m, ask)(X[:600]) for m in (a, b))
        assert (np.abs(want - got) < 1e-4 * (1 + np.abs(want))).mean() > 0.99
        for m in (a, b):
            m.partial_fit(X[1000:1500])
            m.learn_one(X[1501])
    assert np.array_equal(a.predict_then_learn(X), b.predict_then_learn(X))


def test_rows_that_are_alike(rng):
    """A few values only, and many ties: no row is taken for another by rounding."""
    for X in (rng.integers(0, 2, (1000, 1)), rng.integers(0, 3, (1000, 4)), np.full((1000, 2), 3)):
        a, b = both(X.astype(float))
        members, theirs = agree(a, b, X.astype(float))
        assert np.abs(members - theirs).max() < 1e-4


def test_young_models(rng):
    """Before there are terms enough p is 1; the next blocks follow the model as it grows."""
    X = rng.normal(size=(700, 2))
    for rows in (1, 19, 25, 40, 150):
        a, b = both(X[:rows])
        if rows < 20:
            assert np.all(b.p_samples(X) == 1.0)
        want, got = a.score_samples(X), b.score_samples(X)
        assert (np.abs(want - got) < 1e-4 * (1 + np.abs(want))).mean() > 0.99


def test_short_blocks_stay_on_the_cpu(rng):
    """The very same bits, and nothing is sent."""
    X = stream(rng, 1000, 3, 0.0)
    a, b = both(X)
    short = X[: densities.FEWEST - 1]
    assert np.array_equal(a.score_samples(short), b.score_samples(short))
    assert b.explain(X[0]).score == a.explain(X[0]).score
    assert b._learner._judge is None


def test_the_state_is_sent_once(rng, monkeypatch):
    """It lies on the device until rows are learned."""
    X = stream(rng, 1000, 3, 0.9)
    _, b = both(X)
    made = []
    monkeypatch.setattr(density.Judge, "_copy", lambda self, state, send=density.Judge._copy: (
        made.append(1), send(self, state)))  # fmt: skip
    for _ in range(3):
        b.score_samples(X)
    assert len(made) == 1
    b.learn_one(X[0])
    b.score_samples(X)
    assert len(made) == 2


def test_tiles_and_pieces(rng, monkeypatch):
    """However rows are cut up, the same bits."""
    X = stream(rng, 1000, 3, 0.9)
    _, b = both(X)
    want = b.score_samples(X)
    monkeypatch.setattr(density, "TILE", 37 * 1000)
    monkeypatch.setattr(densities, "AT_ONCE", 3 * 600)
    assert np.abs(want - b.score_samples(X)).max() < 1e-6


def test_ways_to_add_up_distances(rng, monkeypatch):
    """Feature by feature, and in PyTorch's own way."""
    X = stream(rng, 1000, 12, 0.0)
    _, b = both(X)
    want = b.score_samples(X)
    monkeypatch.setattr(density, "ONE_BY_ONE", 5)
    assert (np.abs(want - b.score_samples(X)) < 1e-5 * (1 + np.abs(want))).mean() > 0.99


def test_sparse_rows(rng):
    """Made dense in pieces, as on the CPU."""
    sparse = pytest.importorskip("scipy.sparse")
    X = rng.normal(size=(2500, 5)) * (rng.random((2500, 5)) < 0.3)
    a, b = both(sparse.csr_array(X))
    want, got, dense = (m.score_samples(rows) for m, rows in
                        ((a, sparse.csr_array(X)), (b, sparse.csr_array(X)), (b, X)))  # fmt: skip
    assert (np.abs(want - got) < 1e-4 * (1 + np.abs(want))).mean() > 0.99
    assert np.array_equal(got, dense)


def test_tensors(rng):
    """Judged where they are; learned from a copy on the host."""
    X = stream(rng, 1200, 3, 0.0).astype(np.float32)
    there = torch.from_numpy(X).to(DEVICE)
    a, b = Detector(device="cuda").fit(X), Detector(device="cuda").fit(there)
    assert np.array_equal(a.score_samples(X), b.score_samples(there))
    assert np.array_equal(a.score_samples(X[:5]), b.score_samples(there[:5]))
    assert files.dumps(a) == files.dumps(b)


def test_arrays_that_cannot_be_written_to(rng, tmp_path):
    """Rows, and a model's own arrays: nothing is said, and nothing written."""
    X = stream(rng, 1000, 3, 0.9)
    _, b = both(X)
    b.save(tmp_path / "model")
    again = onkel.load(tmp_path / "model")
    X.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(again.score_samples(X), b.score_samples(X))


def test_gaps_are_judged_on_the_cpu(rng):
    """Blocks with NaN; those without go to the device."""
    X = stream(rng, 1000, 3, 0.0)
    a, b = both(X, missing="mean")
    agree(a, b, X)
    X[5::9, 1] = np.nan
    assert np.array_equal(a.score_samples(X), b.score_samples(X), equal_nan=True)


def test_moves_files_and_copies(rng, tmp_path):
    """From one to the other and back; a file or a copy holds nothing of the device."""
    X = stream(rng, 1200, 3, 0.9)
    a, b = both(X)
    want = b.score_samples(X)
    for twin in (copy.deepcopy(b), pickle.loads(pickle.dumps(b))):
        assert twin._learner._judge is None and twin.device == "cuda"
        assert np.array_equal(twin.score_samples(X), want)
    b.save(tmp_path / "model")
    again = onkel.load(tmp_path / "model")
    assert type(again._learner) is densities.DeviceDensities
    assert np.array_equal(again.score_samples(X), want)
    assert np.array_equal(again.to("cpu").score_samples(X), a.score_samples(X))
    assert type(again._learner) is onkel.learner.Densities and again.device == "cpu"
    assert np.array_equal(a.to("cuda").score_samples(X), want)
    a.learn_one(X[0])
    assert a.t_ == len(X) + 1


def test_no_gpu_where_a_model_is_read(rng, monkeypatch):
    """It goes on on the CPU, and says so; a copy of a model on the CPU says nothing."""
    X = stream(rng, 800, 3, 0.0)
    a, b = both(X)
    data, pickled = files.dumps(b), pickle.dumps(b)
    monkeypatch.setattr(devices, "missing", lambda device: "PyTorch finds no CUDA GPU here")
    for read in (lambda: files.loads(data), lambda: pickle.loads(pickled)):
        with pytest.warns(RuntimeWarning, match="goes on on the CPU"):
            again = read()
        assert again.device == "cpu"
        assert np.array_equal(again.score_samples(X), a.score_samples(X))
    copy.deepcopy(a.set_params(device="cuda"))


def test_a_pickle_needs_no_pytorch(rng, tmp_path):
    """Where it is read without PyTorch, the model goes on on the CPU."""
    _, b = both(stream(rng, 800, 2, 0.0))
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(b))
    read = (
        "import pickle, sys, warnings; sys.modules['torch'] = None; "
        "warnings.simplefilter('ignore'); "
        "model = pickle.load(open(sys.argv[1], 'rb')); "
        "print(model.device, model.predict([[1.0, 1.0]] * 600).shape)"
    )
    told = subprocess.run([sys.executable, "-c", read, path], capture_output=True, text=True)
    assert told.stdout == "cpu (600,)\n", told.stderr


def test_what_is_refused(rng, monkeypatch):
    """Named, with what to do; nothing changes."""
    X = stream(rng, 800, 3, 0.0)
    with pytest.raises(ValueError, match="Detector: device must be 'cpu', 'auto', 'cuda' or"):
        Detector(device="gpu").fit(X)
    a, b = both(X)
    with pytest.raises(ValueError, match="got 'gpu'"):
        b.to("gpu")
    with pytest.raises(ValueError, match="to\\('cpu'\\)"):
        merge([b, b])
    assert b.device == "cuda" and merge([a, a]).t_ == 1600
    monkeypatch.setattr(devices, "missing", lambda device: "PyTorch finds no CUDA GPU here")
    with pytest.raises(ValueError, match="Detector: device='cuda:1', but PyTorch finds no CUDA"):
        Detector(device="cuda:1").fit(X)
    with pytest.raises(ValueError, match="Use device='cpu', or 'auto'"):
        a.to("cuda")
    assert a.device == "cpu" and Detector(device="auto").fit(X).predict(X).min() == -1


def test_out_of_memory_is_refused(rng, monkeypatch):
    """With the arithmetic."""
    X = stream(rng, 800, 3, 0.0)
    _, b = both(X)

    def no_room(*_):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(density, "distances", no_room)
    with pytest.raises(MemoryError, match=r"no room\. The terms take 0\.00 GB.*device='cpu'"):
        b.score_samples(X)


@pytest.mark.long
def test_parameters(rng):
    """A clone has the device and nothing else."""
    base = pytest.importorskip("sklearn.base")
    _, b = both(rng.normal(size=(100, 2)))
    other = base.clone(b)
    assert other.get_params() == b.get_params() and other.get_params()["device"] == "cuda"
    assert not hasattr(other, "_learner")
