"""SMS spam: whole texts by the string kernel, beside bags of words.

The SMS Spam Collection in the order of its file, predict then learn; 13 % of 5574 messages are
spam. onkel compares whole texts by their common substrings (`kernels.Spectrum`), no words, no
list of stop words. Its peers take River's bag of words. Each method has three settings
(`Classifier` one: a bank of six models); one is chosen by the mistakes on the first 1000 messages,
which do not count.

Columns: mistakes in per cent; ham taken for spam, and spam missed, in per cent of each; F1 of
spam; and microseconds of the processor per message, in one run of the chosen setting.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .meeting import COLOURS, Row, Study, absent, canvas, command, has, least, running
else:
    from meeting import COLOURS, Row, Study, absent, canvas, command, has, least, running

from onkel import Classifier, KernelClassifier, kernels

TITLE = "SMS spam"
FILE = "sms_spam.tsv.gz"
FIRST = 1000

Method = Callable[[list[str], np.ndarray], np.ndarray]
"""From texts and whether each is spam, to what was said of each before it was learned."""


def load(data: Path, rows: int | None = None) -> tuple[list[str], np.ndarray]:
    """Return the messages and whether each is spam."""
    lines = gzip.decompress((data / FILE).read_bytes()).decode().splitlines()[:rows]
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    return list(texts), np.array([label == "spam" for label in labels])


# -- methods -----------------------------------------------------------------------------------


def ours(length: int, loss: str, rule: str, texts: list[str], spam: np.ndarray) -> np.ndarray:
    """Return what the string kernel says."""
    kernel = kernels.Spectrum(length)
    model = KernelClassifier(kernel, loss=loss, rule=rule, n_jobs=1)
    return model.predict_then_learn(texts, spam).astype(bool)


def bank(texts: list[str], spam: np.ndarray) -> np.ndarray:
    """Return what a bank of string kernels says."""
    members = [
        KernelClassifier(kernels.Spectrum(length), rule=rule)
        for length in (3, 4, 5)
        for rule in ("norma", "projection")
    ]
    return Classifier(members=members, n_jobs=1).predict_then_learn(texts, spam).astype(bool)


def river(build: Callable[[], Any], texts: list[str], spam: np.ndarray) -> np.ndarray:
    """Return what one of River's pipelines says, message by message."""
    model, found = build(), []
    for text, label in zip(texts, spam.tolist(), strict=True):
        found.append(bool(model.predict_one(text)))
        model.learn_one(text, label)
    return np.array(found)


def words(most: int = 1, weighted: bool = False) -> Any:
    """Return River's bag of words, or of words and pairs of them."""
    from river import feature_extraction as f

    return (f.TFIDF if weighted else f.BagOfWords)(lowercase=True, ngram_range=(1, most))


def bayes(kind: str, alpha: float, most: int = 1) -> Any:
    """Return naive Bayes on a bag of words."""
    from river import naive_bayes

    return words(most) | getattr(naive_bayes, kind)(alpha=alpha)


def logistic(rate: float, weighted: bool = False) -> Any:
    """Return logistic regression on a bag of words."""
    from river import linear_model, optim

    return words(1, weighted) | linear_model.LogisticRegression(optim.SGD(rate))


def aggressive(c: float) -> Any:
    """Return the passive-aggressive rule on a bag of words."""
    from river import linear_model

    return words() | linear_model.PAClassifier(c)


METHODS: dict[str, dict[str, Method]] = {
    "onkel: KernelClassifier, Spectrum": {
        "length 3": partial(ours, 3, "soft_margin", "norma"),
        "length 4": partial(ours, 4, "soft_margin", "norma"),
        "length 4, projection": partial(ours, 4, "soft_margin", "projection"),
    },
    "onkel: Classifier, Spectrum 3 to 5": {"as it comes": bank},
    "River: BernoulliNB": {
        "alpha 1": partial(river, partial(bayes, "BernoulliNB", 1.0)),
        "alpha 0.1": partial(river, partial(bayes, "BernoulliNB", 0.1)),
        "alpha 0.01": partial(river, partial(bayes, "BernoulliNB", 0.01)),
    },
    "River: MultinomialNB": {
        "alpha 1": partial(river, partial(bayes, "MultinomialNB", 1.0)),
        "alpha 0.1": partial(river, partial(bayes, "MultinomialNB", 0.1)),
        "alpha 0.1, pairs of words": partial(river, partial(bayes, "MultinomialNB", 0.1, 2)),
    },
    "River: logistic regression": {
        "rate 0.01": partial(river, partial(logistic, 0.01)),
        "rate 0.1": partial(river, partial(logistic, 0.1)),
        "rate 0.5": partial(river, partial(logistic, 0.5)),
    },
    "River: passive-aggressive": {
        "C 1": partial(river, partial(aggressive, 1.0)),
        "C 0.1": partial(river, partial(aggressive, 0.1)),
        "C 0.01": partial(river, partial(aggressive, 0.01)),
    },
}


# -- measures ----------------------------------------------------------------------------------


def measure(said: np.ndarray, spam: np.ndarray) -> Row:
    """Return mistakes, both kinds of them, and F1 of spam."""
    right, wrong, missed = (said & spam).sum(), (said & ~spam).sum(), (~said & spam).sum()
    return {
        "mistakes %": 100 * float(np.mean(said != spam)),
        "ham as spam %": 100 * float(wrong / max((~spam).sum(), 1)),
        "spam missed %": 100 * float(missed / max(spam.sum(), 1)),
        "F1": float(right / max(right + (wrong + missed) / 2, 1)),
    }


def meet(texts: list[str], spam: np.ndarray, settings: dict[str, Method]) -> tuple[Row, np.ndarray]:
    """Choose a setting on the first messages, run it, and measure the rest."""
    first = min(FIRST, len(texts) // 2)
    head, labels = texts[:first], spam[:first]
    begun = {n: float(np.mean(run(head, labels) != labels)) for n, run in settings.items()}
    best, began = least(begun), time.process_time()
    said = settings[best](texts, spam)
    cost = 1e6 * (time.process_time() - began) / len(texts)
    return measure(said[first:], spam[first:]) | {"us": cost, "setting": best}, said


def draw(answers: dict[str, np.ndarray], spam: np.ndarray) -> Any:
    """Draw mistakes of late."""
    fig, (axis,) = canvas(1, 1, (8, 3))
    for colour, (name, said) in zip(COLOURS, answers.items(), strict=False):
        late = 100 * running(said != spam, 500)
        axis.plot(np.arange(len(spam))[200:], late[200:], color=colour, label=name,
                  lw=1.8 if name.startswith("onkel") else 0.9)  # fmt: skip
    axis.set(xlabel="message", ylabel="mistakes, %, last 500", ylim=(0, None))
    axis.legend(frameon=False, ncols=2)
    return fig


def run(quick: bool, data: Path | None) -> Study:
    """Run every method."""
    if data is None or not has(data, FILE):
        return absent(TITLE, FILE)
    texts, spam = load(data, 600 if quick else None)
    lines, answers = [], {}
    for method, settings in METHODS.items():
        line, answers[method] = meet(texts, spam, settings)
        lines.append({"method": method} | line)
    never = measure(np.zeros_like(spam), spam)
    lines.append({"method": "never spam"} | never)
    caption = f"{len(texts):,} messages, {100 * spam.mean():.0f} % spam"
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    table = (caption, sorted(lines, key=lambda row: row["mistakes %"]))
    return Study(TITLE, text, [table], [("Mistakes of late.", draw(answers, spam))])


if __name__ == "__main__":
    raise SystemExit(command("drift_texts", run, __doc__ or ""))
