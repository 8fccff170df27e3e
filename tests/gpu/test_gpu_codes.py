"""What a GPU may run is a list in the table; a code that is not listed is refused, by name."""

from __future__ import annotations

import pytest
from helpers.on_gpu import INTERPRETED, torch, triton

from onkel import expansions, kernels, losses, rules
from onkel.core import layout
from onkel.core.layout import LossCode, Op, RuleCode
from onkel.gpu import devices, feeding, launch, programs
from onkel.gpu.functions import leaf
from onkel.gpu.recurrence import judge
from onkel.learner.settings import Settings

tl = triton.language
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")


def settings(kernel=None, loss=None, rule=None):
    return Settings(
        kernel or kernels.Gaussian(0.1), loss or losses.Squared(), rule or rules.Norma(),
        expansions.Window(terms=10),
    )  # fmt: skip


@pytest.fixture
def unlisted(monkeypatch):
    """The table, with one row taken off the list of what a GPU can do."""

    def take_off(row):
        if isinstance(row, Op):
            monkeypatch.setattr(row, "operation", row.operation._replace(gpu=False))
        else:
            monkeypatch.setattr(row, "gpu", False)

    return take_off


def test_what_is_listed_fits():
    assert devices.unfit(settings()) is None
    assert devices.unfit(settings(kernels.Matern() + 0.5 * kernels.Linear())) is None


def test_an_unlisted_operation_is_refused_before_anything_is_launched(unlisted):
    unlisted(Op.LAPLACIAN)
    reason = devices.unfit(settings(kernels.Laplacian(0.1)))
    assert "has the operation LAPLACIAN; a GPU knows GAUSSIAN, MATERN32" in reason
    with pytest.raises(ValueError, match="kernel operation LAPLACIAN cannot run on a GPU"):
        programs.encode(kernels.Laplacian(0.1).program(), DEVICE)


def test_an_unlisted_loss_is_refused(unlisted):
    unlisted(LossCode.SQUARED)
    assert "a GPU knows SOFT_MARGIN, LOGISTIC" in devices.unfit(settings())
    with pytest.raises(ValueError, match="loss SQUARED cannot run on a GPU"):
        launch.StepKind(loss=int(LossCode.SQUARED)).constants()


def test_an_unlisted_rule_is_refused():
    romma = settings(loss=losses.SoftMargin(), rule=rules.Romma())
    assert "a GPU knows Norma" in devices.unfit(romma)
    with pytest.raises(
        ValueError, match=r"rule ROMMA cannot run on a GPU; a GPU knows NORMA, ALMA"
    ):
        launch.StepKind(rule=int(RuleCode.ROMMA)).constants()
    with pytest.raises(ValueError, match="not among those whose shrinking is known"):
        feeding.shrinks(rules.Romma().bind(losses.SoftMargin()), torch.ones(1), torch.ones(1))


def test_made_up_codes_are_refused():
    with pytest.raises(ValueError, match="unknown kernel operation 14"):
        programs.encode([(14, 1.0, 0.0, 0)], DEVICE)
    with pytest.raises(ValueError, match="unknown loss 77"):
        launch.StepKind(loss=77).constants()
    with pytest.raises(ValueError, match="unknown rule 77"):
        launch.StepKind(rule=77).constants()


@triton.jit
def try_leaf(x, OP: tl.constexpr):
    """One operation on 16 numbers."""
    at = x + tl.arange(0, 16)
    v = tl.load(at)
    tl.store(at, leaf(v, v, v, -1.0, 0.0, OP, 1))


@triton.jit
def try_judge(x, LOSS: tl.constexpr):
    """One loss on 16 numbers."""
    at = x + tl.arange(0, 16)
    v = tl.load(at)
    slope, _outside, _value, _direction = judge(v, v, 1.0, 0.5, 1.0, LOSS, True)
    tl.store(at, slope)


def refusal(run):
    """Return all that is said when `run` fails: a compiler wraps what the code itself says."""
    with pytest.raises(Exception) as caught:
        run()
    said, error = "", caught.value
    while error is not None:
        said, error = f"{said}\n{error}", error.__cause__ or error.__context__
    return said


@pytest.mark.parametrize("op", [op for op in Op if op.operation.pops == 0])
def test_the_device_code_knows_every_listed_operation(op):
    try_leaf[(1,)](torch.ones(16, device=DEVICE), OP=int(op) + 1)


@pytest.mark.parametrize("code", [0, 7, 9, 15])
def test_the_device_code_refuses_what_it_does_not_know(code):
    """7 and 9 are no leaves: sums and scales are the stack's business."""
    x = torch.ones(16, device=DEVICE)
    assert "no formula on the device" in refusal(lambda: try_leaf[(1,)](x, OP=code))


@pytest.mark.parametrize("loss", [*LossCode, len(LossCode)])
def test_the_device_code_knows_the_listed_losses_and_no_other(loss):
    x = torch.ones(16, device=DEVICE, dtype=torch.float64)
    if loss in list(LossCode):
        try_judge[(1,)](x, LOSS=int(loss))
    else:
        said = refusal(lambda: try_judge[(1,)](x, LOSS=int(loss)))
        assert "no formula on the device" in said


def test_four_bits_hold_every_operation():
    assert max(layout.Op) + 1 < 16
