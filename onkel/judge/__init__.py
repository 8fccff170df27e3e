"""One way to judge rows for every door: the command, the service, Spark.

``judge_of(model)`` returns what judges rows for a model: each row before it is learned, in as few
calls as rows with and without targets allow. What comes of them is a table of columns, of which the
doors make lines, JSON or frames.
"""

from onkel.judge.answers import OUTPUTS, Answer, answer, predict, predicted
from onkel.judge.brief import UNKNOWN, Usual, briefly, in_brief
from onkel.judge.marks import Marks, marks_of_labels, marks_of_numbers, own_scores
from onkel.judge.ranks import ranks_at
from onkel.judge.reasons import after_answers, reason_of
from onkel.judge.rows import Halted, NamedRows, Rows, named
from onkel.judge.tasks import (
    Columns,
    Detect,
    Detected,
    Judge,
    Predicted,
    forgets_by_clock,
    judge_of,
    tells_interval,
)

__all__ = [
    "OUTPUTS",
    "UNKNOWN",
    "Answer",
    "Columns",
    "Detect",
    "Detected",
    "Halted",
    "Judge",
    "Marks",
    "NamedRows",
    "Predicted",
    "Rows",
    "Usual",
    "after_answers",
    "answer",
    "briefly",
    "forgets_by_clock",
    "in_brief",
    "judge_of",
    "marks_of_labels",
    "marks_of_numbers",
    "named",
    "own_scores",
    "predict",
    "predicted",
    "ranks_at",
    "reason_of",
    "tells_interval",
]
