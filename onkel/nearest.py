"""Did you mean: the word that was probably meant, where one came that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

_NAMES = {
    "kernel": {
        "gaussian": "rbf gauss radial radial_basis squared_exponential se",
        "polynomial": "poly",
        "laplacian": "laplace l1",
        "linear": "dot cosine",
        "spectrum": "string ngram n_gram ngrams",
    },
    "loss": {
        "soft_margin": "hinge squared_hinge svm svc margin",
        "logistic": "log log_loss logloss logit cross_entropy crossentropy bce deviance",
        "least_squares": "mse l2 ls squared squared_error squared_loss square rmse",
        "squared": "mse l2 ls least_squares squared_error squared_loss square rmse",
        "absolute": "mae l1 absolute_error lad quantile",
        "epsilon_insensitive": "epsilon eps svr squared_epsilon_insensitive",
        "exponential": "exp boosting",
        "novelty": "one_class oneclass ocsvm anomaly outlier",
    },
    "rule": {
        "projection": "pa pa1 pa2 pa_i pa_ii passive_aggressive passiveaggressive",
        "norma": "sgd pegasos gradient gradient_descent",
    },
    "type": {
        "number": "float int integer numeric double real",
        "category": "categorical factor enum label nominal object",
        "boolean": "bool flag truth",
        "time": "date datetime timestamp",
        "text": "string str words",
        "ignore": "id identifier skip drop none",
    },
    "task": {
        "novelty": "detect detection detector anomaly outlier one_class unsupervised",
        "classification": "classify classifier",
        "regression": "regress regressor",
    },
}
"""What others call what is known here."""
MOST = 10_000
"""Of more words than these the first are compared."""
LONGEST = 80


def nearest(given: Any, known: Iterable[str], what: str = "") -> str | None:
    """Return the known word that was probably meant; None where nothing comes near.

    Examples
    --------
    >>> nearest("rbf", ["gaussian", "linear"], "kernel"), nearest("Lineer", ["gaussian", "linear"])
    ('gaussian', 'linear')
    """
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST:
        return None
    from difflib import get_close_matches

    words = {_plain(word): word for word in islice(known, MOST)}
    plain, others = _plain(given), _NAMES.get(what, {})
    called = [word for word, names in others.items() if plain in names.split() and word in words]
    found = [plain] if plain in words else called or get_close_matches(plain, words, 1)
    return words[found[0]] if found else None


def did_you_mean(given: Any, known: Iterable[str], what: str = "") -> str:
    """Return the question as a sentence after another one, or nothing.

    Examples
    --------
    >>> did_you_mean("incme", ["income", "age"])
    " Did you mean 'income'?"
    """
    found = nearest(given, known, what)
    return "" if found is None else f" Did you mean {found!r}?"


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")
