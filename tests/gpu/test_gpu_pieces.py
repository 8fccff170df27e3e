"""The pieces of onkel.gpu, each against a formula in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.on_gpu import DEVICE, torch, triton
from helpers.sizes import size
from helpers.steps_on_device import plain_frame

from onkel import expansions, kernels, losses, rules
from onkel.core.frame import Frame
from onkel.gpu import devices, launch, memory
from onkel.gpu.device_terms import DeviceTerms
from onkel.gpu.launch import Launcher, Ring, Rows, Terms, Tiles
from onkel.gpu.moments import take_in
from onkel.gpu.programs import encode
from onkel.gpu.recurrence import carry
from onkel.gpu.tensors import tensor_rows
from onkel.learner import Settings
from onkel.scaling import Moments

tl = triton.language


def ring_of(launcher: Launcher, Z: np.ndarray, coef: np.ndarray) -> Terms:
    """A ring that holds these terms, from slot 40 on, round the end."""
    slots, m, c = 256, len(Z), coef.shape[1]
    terms = Terms.empty(slots, launcher, c)
    at = (torch.arange(m) + 40) % slots
    terms.rows[at] = torch.from_numpy(Z.astype(np.float32)).to(DEVICE)
    terms.coef[:c, at] = torch.from_numpy(coef.T).to(DEVICE)
    terms.weights[:] = terms.coef.to(torch.float32)
    terms.ring[Ring.HEAD], terms.ring[Ring.COUNT] = 40, m
    frame = plain_frame(Z.shape[1], DEVICE)
    into = Rows(terms.rows, terms.operand, terms.turned, terms.norm, terms.diag)
    launcher.ready(terms.rows, frame, True, False, into)
    return terms


@pytest.mark.few
@pytest.mark.parametrize("precision", size(["tf32x3"], ["float32", "tf32x3", "tf32"]))
@pytest.mark.parametrize(
    ("d", "tiles"),
    [
        (3, None), (40, None), (200, None), (200, Tiles(64, 64, 32, 4, 1, True, True)),
        (200, Tiles(64, 128, 32, 4, 1, False, True)),
    ],
)  # fmt: skip
def test_sums(d, tiles, precision, rng):
    """Sum of coef k over a ring that goes round its end, for two outputs."""
    if precision == "float32" and tiles is not None and tiles.tma:
        pytest.skip("float32 is not for the copy engine's tiles")
    kernel = kernels.Gaussian(1.0 / d)
    X, Z, coef = rng.normal(size=(70, d)), rng.normal(size=(230, d)), rng.normal(size=(230, 2))
    program = encode(kernel.program(), DEVICE)
    launcher = Launcher([program], d, launch.MODES[precision], DEVICE, tiles, [2])
    terms = ring_of(launcher, Z, coef)
    x = torch.from_numpy(X.astype(np.float32)).to(DEVICE)
    rows = launcher.prepare(x, plain_frame(d, DEVICE), True)
    partial = torch.zeros(3 * 2 * 128, device=DEVICE)
    launcher.sums(launcher.shares[0], rows, 0, 70, terms, partial, 3, 128)
    got = partial.view(3, 2, 128).to(torch.float64).sum(0).T[:70].cpu().numpy()
    want = kernel(X, Z) @ coef
    limit = {"float32": 1e-5, "tf32x3": 1e-5, "tf32": 1e-3}[precision]
    assert np.abs(got - want).max() < limit * np.abs(want).max()


def test_operands_are_what_tensor_cores_keep(rng):
    """Ten bits after the point; high and low part together hold twice as many."""
    x = torch.from_numpy(rng.normal(size=(9, 5)).astype(np.float32)).to(DEVICE)
    program = encode(kernels.Linear().program(), DEVICE)
    frame = plain_frame(5, DEVICE)
    high = Launcher([program], 5, 1, DEVICE).prepare(x, frame, False).operand[:9, :5].cpu().numpy()
    both = Launcher([program], 5, 2, DEVICE).prepare(x, frame, False).operand[:9].cpu().numpy()
    mantissa, _ = np.frexp(high)
    assert np.array_equal(mantissa * 2**11, np.rint(mantissa * 2**11))
    z = x.cpu().numpy()
    assert np.abs(high - z).max() <= np.abs(z).max() * 2.0**-11
    assert np.array_equal(both[:, :5], high)
    assert np.abs(both[:, :5] + both[:, 16:21] - z).max() <= np.abs(z).max() * 2.0**-22


@pytest.mark.parametrize("horizon", [7.0, 30.0, np.inf])
def test_moments_as_row_by_row(horizon, rng):
    """Closed form against the recurrence, over pieces."""
    X = rng.normal(size=(60, 3)) * [1, 100, 1e-3] + [5, 0, 1e3]
    X[:, 1] = 4.0
    one, other = (Moments(3, horizon, 1e-7) for _ in range(2))
    one.update(X)
    for part in (X[:1], X[1:20], X[20:]):
        take_in(other, torch.from_numpy(part))
    assert np.allclose(one.mean, other.mean, rtol=1e-12)
    assert np.allclose(one.variance, other.variance, rtol=1e-9, atol=0)
    assert other.variance[1] == 0.0 and np.array_equal(one.seen, other.seen)


def test_memory_is_refused_with_the_arithmetic(monkeypatch):
    """The ring of a million terms, and a card with 1 GB."""
    kernel = kernels.Gaussian(0.1)
    frame = Frame.plain(np.zeros(784), np.float32, True)
    terms = DeviceTerms(kernel, frame, 1, 10**6, DEVICE, "tf32")
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10**9)
    with pytest.raises(MemoryError, match=r"1,000,192 terms of 6,364 bytes are 6.37 GB; 1.00 GB"):
        memory.check_room(terms, 10**6)
    memory.check_room(terms, 1000)
    assert terms.held.slots == 0


def settings(**own):
    """Settings for a GPU."""
    made = {
        "kernel": kernels.Gaussian(), "loss": losses.SoftMargin(), "rule": rules.Norma(),
        "expansion": expansions.Window(), "device": "cuda", **own,
    }  # fmt: skip
    return Settings(**made)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"kernel": kernels.Spectrum()}, "takes strings"),
        ({"kernel": kernels.get(lambda X, Z: X @ Z.T)}, "a GPU knows Gaussian"),
        ({"expansion": expansions.Centers(10)}, "expansions.Window"),
        ({"rule": rules.Romma()}, "Perceptron, Alma and Projection"),
        ({"rule": rules.Norma(regularizer=lambda r: r)}, "a number as regularizer"),
        ({"average": True}, "average=True"),
        ({"kernel": sum([kernels.Linear()] * 9, kernels.Linear())}, "too long"),
    ],
)
def test_what_a_gpu_does_not_take(own, words):
    """The message names what was given and what is accepted; "auto" stays on the processor."""
    with pytest.raises(ValueError, match=words):
        devices.chosen("KernelClassifier", settings(**own))
    assert devices.chosen("KernelClassifier", settings(**{**own, "device": "auto"})) == "cpu"


def test_no_gpu(monkeypatch):
    """device="cuda" where there is none is an error; "auto" is not."""
    monkeypatch.setattr(devices, "missing", lambda device: "PyTorch finds no CUDA GPU here")
    with pytest.raises(ValueError, match=r"no CUDA GPU here\. Use device='cpu', or 'auto'"):
        devices.chosen("KernelClassifier", settings())
    assert devices.chosen("KernelClassifier", settings(device="auto")) == "cpu"


@pytest.mark.parametrize("device", ["gpu", "cuda:x", 0, None])
def test_names_of_devices(device):
    with pytest.raises(ValueError, match="device must be 'cpu', 'auto', 'cuda' or 'cuda:N'"):
        devices.check("KernelClassifier", device, "tf32")


def test_tensors_are_checked():
    """As arrays are."""
    for bad, words in (
        (torch.zeros(3), "Expected 2D"), (torch.zeros(2, 0), "0 feature"),
        (torch.zeros(2, 4), "expecting 3"),
        (torch.tensor([[0.0, torch.nan, 0.0]]), "row 0, column 1"),
        (torch.zeros(1, 3, dtype=torch.complex64), "Complex"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            tensor_rows(bad, "KernelClassifier", 3)


@triton.jit
def carried(
    base, own_k, old_k, gained, lost, numbers, B: tl.constexpr, C: tl.constexpr, CP: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Call what the steps call after each 32 rows."""
    lane = tl.arange(0, 32)[None, :]
    output = tl.arange(0, CP)[:, None]
    a = tl.load(gained + output * 32 + lane)
    c = tl.load(lost + output * 32 + lane)
    t0, r, w0 = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    gone, n = tl.load(numbers + 3), tl.load(numbers + 4)
    carry(base, own_k, old_k, a, c, t0, r, w0, gone, n, B, C, CP, WIDE)


@pytest.mark.parametrize(
    ("t0", "r", "gone", "n"), [(0, 32, 32, 128), (5, 20, 7, 111), (64, 9, 0, 90)]
)
def test_all_later_rows_are_brought_up_to_date(t0, r, gone, n, rng):
    """Wherever the 32 begin and end, in pieces of 32 columns, for several outputs; no others."""
    size, c, cp, w0 = 128, 3, 4, 11
    own, old = rng.normal(size=(2, size + 64, size)).astype(np.float32)
    base = rng.normal(size=(cp + 1, size)).astype(np.float32)
    gained, lost = rng.normal(size=(2, cp, 32)).astype(np.float32)
    want = base.copy()
    part = gained[:c, :r] @ own[t0 : t0 + r] - lost[:c, :gone] @ old[w0 : w0 + gone]
    want[:c, t0 + r : n] += part[:, t0 + r : n]
    put = [torch.from_numpy(v).to(DEVICE) for v in (base, own, old, gained, lost)]
    numbers = torch.tensor([t0, r, w0, gone, n], dtype=torch.int32, device=DEVICE)
    carried[(1,)](*put, numbers, B=size, C=c, CP=cp, WIDE=32)
    assert np.abs(put[0].cpu().numpy() - want).max() < 1e-4
