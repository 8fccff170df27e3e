"""Learners on the device that their settings name.

This module imports PyTorch when a learner goes to a GPU, so that others need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onkel import learner as learners
from onkel.core.frame import Apart
from onkel.learner import Learner, Settings


def opened(
    group: Sequence[Settings], features: int, columns: int, dtype: Any, apart: Apart = ()
) -> Learner:
    """Return a learner that has seen nothing, for one setting or for several that share points."""
    if group[0].device == "cpu":
        return learners.opened(group, features, columns, dtype, apart)
    if len(group) == 1:
        from onkel.gpu.learner import GpuLearner

        return GpuLearner(group[0], features, columns, dtype, apart)
    from onkel.gpu.bank import GpuBank

    return GpuBank(group, features, columns, dtype, apart)
