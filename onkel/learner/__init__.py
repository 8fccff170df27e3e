"""The learner: kernel x loss x rule x expansion."""

from onkel.learner.bank import Bank
from onkel.learner.base import Learner
from onkel.learner.densities import Densities
from onkel.learner.grow import with_features
from onkel.learner.means import Means
from onkel.learner.merging import Merged, merged
from onkel.learner.mixture import Mixture, resumed_mixture
from onkel.learner.odds import Odds
from onkel.learner.parts import start_parts
from onkel.learner.primal_learner import PrimalLearner
from onkel.learner.resume import Start, dump, opened, resumed, start
from onkel.learner.second_order import SecondOrderLearner
from onkel.learner.settings import OF_THE_MACHINE, Settings
from onkel.learner.single_row import SingleRow
from onkel.learner.term_learner import TermLearner
from onkel.learner.widths import Widths

__all__ = [
    "OF_THE_MACHINE", "Bank", "Densities", "Learner", "Means", "Merged", "Mixture",
    "Odds", "PrimalLearner", "SecondOrderLearner", "Settings", "SingleRow", "Start",
    "TermLearner", "Widths", "dump", "merged", "opened", "resumed", "resumed_mixture",
    "start", "start_parts", "with_features",
]  # fmt: skip
