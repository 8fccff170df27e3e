"""The numbers of ``core/layout.py`` as constants of the device code."""

# Triton takes a global of a kernel only as a constant of its own kind.
# mypy: ignore-errors

from triton.language import constexpr

from onkel.core.layout import Field, LossCode, Op, RuleCode

# Operations stand in four bits of a program, where 0 is none.
GAUSSIAN = constexpr(Op.GAUSSIAN + 1)
LAPLACIAN = constexpr(Op.LAPLACIAN + 1)
MATERN32 = constexpr(Op.MATERN32 + 1)
MATERN52 = constexpr(Op.MATERN52 + 1)
LINEAR = constexpr(Op.LINEAR + 1)
POLYNOMIAL = constexpr(Op.POLYNOMIAL + 1)
SUM = constexpr(Op.SUM + 1)
PRODUCT = constexpr(Op.PRODUCT + 1)
SCALE = constexpr(Op.SCALE + 1)

SOFT_MARGIN = constexpr(int(LossCode.SOFT_MARGIN))
LOGISTIC = constexpr(int(LossCode.LOGISTIC))
NOVELTY = constexpr(int(LossCode.NOVELTY))
SQUARED = constexpr(int(LossCode.SQUARED))
ABSOLUTE = constexpr(int(LossCode.ABSOLUTE))
EPSILON_INSENSITIVE = constexpr(int(LossCode.EPSILON_INSENSITIVE))
HUBER = constexpr(int(LossCode.HUBER))
LEAST_SQUARES = constexpr(int(LossCode.LEAST_SQUARES))
EXPONENTIAL = constexpr(int(LossCode.EXPONENTIAL))

NORMA = constexpr(int(RuleCode.NORMA))
ALMA = constexpr(int(RuleCode.ALMA))
PROJECTION = constexpr(int(RuleCode.PROJECTION))

# Columns of the state, and how many there are.
FIELDS = constexpr(len(Field))
AT_SCALE = constexpr(int(Field.SCALE))
AT_OFFSET = constexpr(int(Field.OFFSET))
AT_THRESHOLD = constexpr(int(Field.THRESHOLD))
AT_ALERT = constexpr(int(Field.ALERT))
AT_NORM2 = constexpr(int(Field.NORM2))
AT_SCALE_SUM = constexpr(int(Field.SCALE_SUM))
AT_OFFSET_SUM = constexpr(int(Field.OFFSET_SUM))
AT_DROPPED = constexpr(int(Field.DROPPED))
AT_TRIALS = constexpr(int(Field.TRIALS))
AT_WEIGHT = constexpr(int(Field.WEIGHT))
AT_OUTSIDE = constexpr(int(Field.OUTSIDE))
AT_ALERTS = constexpr(int(Field.ALERTS))
AT_ALERT_SUM = constexpr(int(Field.ALERT_SUM))
AT_LOSS = constexpr(int(Field.LOSS))
AT_RISK = constexpr(int(Field.RISK))
AT_MARGIN_ERRORS = constexpr(int(Field.MARGIN_ERRORS))
AT_UPDATES = constexpr(int(Field.UPDATES))
