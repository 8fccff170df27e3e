"""Rows as they are: tables of numbers, categories, times and texts, as rows of codes and numbers.

``Columns`` is what a user says, ``Plan`` what each column is, ``Encoded`` rows as codes and
numbers, ``Tally`` how often each value came.
"""

from onkel.columns.plan import KINDS, Encoded, Plan, Typed
from onkel.columns.raw import Raw, is_dicts, raw_of, table_of
from onkel.columns.spec import Columns
from onkel.columns.tally import Tally, added

__all__ = [
    "KINDS", "Columns", "Encoded", "Plan", "Raw", "Tally", "Typed", "added", "is_dicts",
    "raw_of", "table_of",
]  # fmt: skip
