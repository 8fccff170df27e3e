"""Rows, targets and weights as they come from users, made into arrays or refused with a reason."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LARGEST = 1e152
"""Inputs beyond this have squares that a stream's moments cannot hold."""
WHOLE = -(2**63), 2**63 - 1
"""Least and largest whole number of labels and requests: what logs, files and NumPy hold."""
EXACT = 2**53
"""From here on floats skip whole numbers."""
WIDEST = 64
"""Characters of a text that an array of fixed width may hold."""


class NotFittedError(ValueError, AttributeError):
    """The model has learned nothing yet (as scikit-learn's)."""


class RefusedRow(ValueError):
    """A row that cannot be learned, for its values or for what the model is; nothing was changed.

    `row` counts from the call's first.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> Any:
        """Return how a copy is made (exceptions cross processes)."""
        return type(self), (str(self), self.row)


class DataConversionWarning(UserWarning):
    """A target came in another shape than expected and was changed (as scikit-learn's)."""


def _shared(own: type) -> Any:
    """Return scikit-learn's class of the same name if that package is loaded, else our own."""
    return getattr(sys.modules.get("sklearn.exceptions"), own.__name__, own)


def not_fitted(owner: str) -> Exception:
    """Return the error for a model that has learned nothing yet."""
    error: Exception = _shared(NotFittedError)(
        f"This {owner} instance is not fitted yet. Call 'fit', 'partial_fit' or "
        "'predict_then_learn' with appropriate arguments before using this estimator."
    )
    return error


class SparseRows:
    """A CSR matrix whose short slices come out dense, one block at a time."""

    most = 1024
    """A longer slice stays sparse."""

    def __init__(self, matrix: Any, dtype: Any) -> None:
        self.matrix = matrix.tocsr()
        self.dtype = dtype
        self.shape: tuple[int, int] = tuple(matrix.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice) -> Any:
        part = self.matrix[which]
        if part.shape[0] > self.most:
            return SparseRows(part, self.dtype)
        return np.ascontiguousarray(part.toarray(), self.dtype)


def is_sparse(X: Any) -> bool:
    """Whether X looks like a SciPy sparse matrix or array."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, getattr(torch, "Tensor", ()))


def on_host(X: Any) -> Any:
    """Return a tensor as an array in the memory of the host, anything else as it is.

    From a GPU by way of memory that it can write to on its own, which is many times as fast.
    """
    if not is_tensor(X):
        return X
    X = X.detach()
    if X.is_cuda:
        room = sys.modules["torch"].empty(X.shape, dtype=X.dtype, pin_memory=True)
        X = room.copy_(X)
    return X.cpu().numpy()


def feature_names(X: Any) -> Array | None:
    """Return the column names of a data frame, if all are strings."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = [*columns]
    return np.array(names, dtype=object) if all(isinstance(n, str) for n in names) else None


def choose_dtype(X: Any) -> Any:
    """Return float32 for float32 input, else float64."""
    if is_tensor(X):
        return np.float32 if str(X.dtype) == "torch.float32" else np.float64
    dtypes = getattr(X, "dtypes", None)
    if dtypes is not None and not isinstance(X, np.ndarray):
        kinds = {str(d).lower() for d in np.ravel(np.asarray(dtypes, dtype=object))}
        return np.float32 if kinds == {"float32"} else np.float64
    return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64


def numeric_rows(
    X: Any, owner: str, dtype: Any, width: int | None, gaps: bool = False
) -> Array | SparseRows:
    """Return X as a checked matrix of `dtype`; raise a ValueError that says what is wrong.

    NaN is refused unless there may be `gaps`.
    """
    if is_sparse(X):
        _check_finite(_to_float(X.tocsr().data, dtype), owner, None)
        rows: Any = SparseRows(X, dtype)
    else:
        if hasattr(X, "to_numpy"):
            X = _frame_values(X, gaps)
        rows = _to_float(X, dtype)
        if rows.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {rows.ndim}D array instead (shape {rows.shape}). "
                "Reshape your data either using array.reshape(-1, 1) if it has a single feature "
                "or array.reshape(1, -1) if it contains a single sample."
            )
        _check_finite(rows, owner, rows, gaps)
    if rows.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required."
        )
    if width is not None and rows.shape[1] != width:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {owner} is expecting {width} features as input."
        )
    return rows


def _frame_values(X: Any, gaps: bool) -> Any:
    """Return a frame's values; pandas' own missing values as NaN, where there may be gaps."""
    if gaps:
        try:
            return X.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            pass  # not pandas, or not numbers: that is said elsewhere
    return X.to_numpy()


def _to_float(X: Any, dtype: Any) -> Array:
    raw = np.asarray(X)
    if raw.dtype.kind == "c":
        raise ValueError(f"Complex data not supported; got dtype {raw.dtype}.")
    if raw.dtype.kind in "mM":
        raise ValueError(
            f"X must hold numbers; got dates (dtype {raw.dtype}). Turn them into numbers first, "
            "for example seconds since a start."
        )
    try:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(raw, dtype)
    except (ValueError, TypeError) as error:
        if isinstance(error, TypeError) and "NAType" not in str(error):
            raise TypeError(
                f"X must hold numbers; {error}. A row is a list of numbers, one per feature."
            ) from None
        raise ValueError(
            f"X must hold numbers, none of them missing; {error}. For texts hand over "
            "a table with a column of texts (a frame, a list of dicts), or use a string kernel "
            "(kernels.Spectrum) on a list of strings."
        ) from None


def _check_finite(values: Array, owner: str, rows: Array | None, gaps: bool = False) -> None:
    if gaps and np.isnan(values).any():
        values = rows = np.where(np.isnan(values), values.dtype.type(0), values)
    if np.all(np.isfinite(values)):
        if values.dtype == np.float64 and np.max(np.abs(values), initial=0.0) > LARGEST:
            _refuse(
                f"Input X holds values beyond {LARGEST:g}, whose squares leave the floating "
                "range.{where} Rescale that feature. The model was not changed.",
                rows, lambda x: np.abs(x) <= LARGEST,
            )  # fmt: skip
        return
    kind = "NaN" if np.isnan(values).any() else f"infinity or a value too large for {values.dtype}"
    _refuse(
        f"Input X contains {kind}.{{where}} {owner} takes finite numbers only: impute those "
        "values, leave out those rows, or (for NaN) let missing='mean' stand in. The model was not "
        "changed.",
        rows, np.isfinite,
    )  # fmt: skip


def _refuse(message: str, rows: Array | None, fits: Any) -> None:
    """Refuse rows for their first value that does not fit; its place, if known, goes into {where}.

    Of sparse rows the place is not known.
    """
    if rows is None:
        raise ValueError(message.replace("{where}", ""))
    i, j = (int(at) for at in np.argwhere(~fits(rows))[0])
    where = f" First at row {i}, column {j}: {rows[i, j]}."
    raise RefusedRow(message.replace("{where}", where), i)


def string_rows(X: Any, owner: str) -> list[str]:
    """Return X as a list of strings; raise a ValueError that says what is wrong."""
    if isinstance(X, str):
        raise ValueError("A string kernel takes a list of strings; got one string. Pass [text].")
    if hasattr(X, "plan"):
        raise ValueError(
            f"The kernel of this {owner} takes strings; got rows with columns. The model was not "
            "changed."
        )
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        X = X.ravel() if X.ndim == 2 and X.shape[1] == 1 else X
        X = X.tolist()
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"The kernel of this {owner} takes strings; row {i} is {type(text).__name__} "
                f"({text!r:.40}). The model was not changed."
            )
    return texts


def as_rows(x: Any, strings: bool) -> Any:
    """Return a single row (a list, a vector, a row of a data frame, a text) as rows; others as is.

    Examples
    --------
    >>> as_rows([1.0, 2.0], strings=False), as_rows("text", strings=True)
    ([[1.0, 2.0]], ['text'])
    """
    if is_sparse(x) or hasattr(x, "columns") or hasattr(x, "plan"):
        return x
    if isinstance(x, Mapping):
        return [x]
    if getattr(getattr(x, "dtype", None), "names", None):
        return np.atleast_1d(x)  # records, or one
    if isinstance(x, (list, tuple)) and x and isinstance(x[0], Mapping):
        return x
    try:
        axes = np.ndim(x)
    except ValueError:
        return x  # ragged: refused where rows are read
    single = isinstance(x, str) if strings else axes == 1
    if axes == 0 and not single:
        wanted = "a text" if strings else "a list of numbers"
        raise ValueError(f"explain takes one row, {wanted}; got {x!r}.")
    return [x] if single else x


def weights_of(sample_weight: Any, rows: int) -> Array:
    """Return one non-negative weight per row."""
    if sample_weight is None:
        return np.ones(rows)
    sample_weight = on_host(sample_weight)
    if hasattr(sample_weight, "to_numpy"):
        sample_weight = sample_weight.to_numpy()
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"sample_weight must hold one number per row; {error}.") from None
    if weight.ndim == 0:
        weight = np.full(rows, float(weight))
    if weight.shape != (rows,):
        raise ValueError(
            f"sample_weight must hold one number per row, shape ({rows},); got {weight.shape}."
        )
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight must be finite and at least 0.")
    return weight


def same_length(X: Sequence[Any] | Any, y: Any) -> None:
    """Raise if rows and targets differ in number."""
    if len(X) != len(y):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {len(X)} rows and "
            f"y has {len(y)}."
        )


def labels_of(y: Sequence[Any]) -> Array:
    """Return a list as an array of a common type, or of objects where one would merge labels."""
    kinds = {issubclass(kind, str) for kind in set(map(type, y))}
    if kinds == {True}:
        return text_array(y)
    if len(kinds) < 2:
        found = np.asarray(y)
        large = found.dtype.kind == "f" and np.any(np.abs(found) >= EXACT)
        if not (large and any(isinstance(v, int) for v in y)):
            return found
    return _objects(y)


def text_array(texts: Sequence[str]) -> Array:
    """Return texts as an array: of fixed width if they are short, else of objects.

    An array of fixed width has room for the longest text in every row, and drops a NUL at the end.

    Examples
    --------
    >>> text_array(["a", "b"]).dtype, text_array(["a", "b" * 1000]).dtype
    (dtype('<U1'), dtype('O'))
    """
    if any(len(text) > WIDEST or "\0" in text for text in set(texts)):
        return _objects(texts)
    return np.array(texts, dtype=str)


def _objects(values: Sequence[Any]) -> Array:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def as_vector(y: Any, owner: str, warn: bool = True) -> Array:
    """Return y as a 1-d array; a column is flattened with a warning."""
    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None. Give one target per row."
        )
    y = on_host(y)
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    y = labels_of(y) if isinstance(y, (list, tuple)) else np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        if warn:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples,), for example using ravel().",
                _shared(DataConversionWarning),
                stacklevel=4,
            )
        y = y.ravel()
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
    return y
