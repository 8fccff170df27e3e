"""Did you mean: errors of the library, the command and the service name the word that was meant."""

from __future__ import annotations

import pytest
from helpers.runs_of import onkel

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    kernels,
    losses,
    rules,
)
from onkel.nearest import nearest

X, LABELS = [[0.0], [1.0]], [0, 1]


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        (KernelClassifier(kernel="rbf"), "gaussian"),
        (KernelClassifier(kernel="RBF"), "gaussian"),
        (KernelClassifier(kernel="gausian"), "gaussian"),
        (KernelClassifier(kernel="poly"), "polynomial"),
        (NoveltyDetector(kernel="laplace"), "laplacian"),
        (KernelClassifier(loss="hinge"), "soft_margin"),
        (KernelClassifier(loss="log_loss"), "logistic"),
        (LinearClassifier(loss="log"), "logistic"),
        (KernelClassifier(loss="mse"), "least_squares"),
        (KernelRegressor(loss="mse"), "squared"),
        (KernelRegressor(loss="l2"), "squared"),
        (KernelRegressor(loss="squared_error"), "squared"),
        (KernelRegressor(loss="mae"), "absolute"),
        (KernelRegressor(loss="epsilon-insensitive"), "epsilon_insensitive"),
        (KernelRegressor(loss="hubr"), "huber"),
        (KernelClassifier(rule="pegasos"), "norma"),
        (KernelClassifier(rule="sgd"), "norma"),
        (KernelClassifier(rule="passive_aggressive"), "projection"),
        (KernelClassifier(rule="PA"), "projection"),
        (Classifier(members=[KernelClassifier(kernel="rbf")]), "gaussian"),
    ],
)
def test_a_part_of_another_name(model, meant) -> None:
    y = LABELS if not isinstance(model, NoveltyDetector) else None
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'"):
        model.partial_fit(X, y)


@pytest.mark.parametrize(
    ("model", "fit", "others"),
    [
        (KernelClassifier(loss="hing"), ["logistic", "soft_margin"], ["huber", "novelty"]),
        (KernelRegressor(loss="hubber"), ["absolute", "huber"], ["logistic", "novelty"]),
        (KernelRegressor(loss="soft_margin"), ["absolute", "huber"], ["logistic", "novelty"]),
        (KernelClassifier(loss=losses.Huber()), ["logistic", "soft_margin"], ["squared'"]),
    ],
)
def test_only_losses_of_the_task_are_listed(model, fit, others) -> None:
    with pytest.raises(ValueError, match="loss") as error:
        model.partial_fit(X, LABELS)
    told = str(error.value)
    assert all(f"'{word}'" in told for word in fit) and not any(w in told for w in others), told


def test_what_is_far_from_all_is_not_guessed() -> None:
    for get in (kernels.get, losses.get, rules.get):
        with pytest.raises(ValueError, match="must be one of") as error:
            get("xyzzy")
        assert "mean" not in str(error.value)
    assert nearest(3, ["a"]) is None and nearest("", ["a"]) is None
    assert nearest("a" * 10**6, ["a"]) is None and nearest("a", []) is None


def test_a_parameter_of_another_name() -> None:
    with pytest.raises(ValueError, match=r"Valid parameters are.*Did you mean 'kernel'"):
        KernelClassifier().set_params(kernal="linear")
    with pytest.raises(ValueError, match="Did you mean 'gamma'"):
        KernelClassifier().set_params(kernel__gama=1.0)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["classify", "--target", "incme"], "income"),
        (["classify", "--target", "Income"], "income"),
        (["detect", "--ignore", "agee"], "age"),
        (["detect", "--kernel", "rbf"], "gaussian"),
        (["detect", "--types", "aeg=category"], "age"),
        (["detect", "--types", "age=categorical"], "category"),
        (["detect", "--types", "age=catgory"], "category"),
        (["classify", "--target", "income", "--loss", "hinge"], "soft_margin"),
    ],
)
def test_the_command(tmp_path, words, meant) -> None:
    pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
    (tmp_path / "rows.csv").write_text("age,income\n1,0\n2,1\n")
    done = onkel(words[0], tmp_path / "rows.csv", *words[1:])
    assert done.exit_code in (2, 3) and f"Did you mean '{meant}'?" in done.stderr, done.output


def test_settings_in_a_file(tmp_path) -> None:
    pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
    (tmp_path / "c.toml").write_text("memry = 5\n")
    done = onkel("detect", tmp_path / "rows.csv", "--config", tmp_path / "c.toml")
    assert done.exit_code == 2 and "Did you mean 'memory'?" in done.stderr


@pytest.mark.parametrize(
    ("kind", "parameters", "path", "meant"),
    [
        ("KernelClasifier", {}, "kind", "KernelClassifier"),
        ("KernelClassifier", {"kernal": "linear"}, "parameters.kernal", "kernel"),
        ("KernelClassifier", {"kernel": "rbf"}, "parameters", "gaussian"),
        ("KernelClassifier", {"kernel": {"name": "rbf"}}, "parameters.kernel.name", "gaussian"),
        ("KernelClassifier", {"kernel": {"name": "gaussian", "gama": 1}}, "parameters.kernel.gama",
         "gamma"),
        ("KernelRegressor", {"loss": {"name": "mae"}}, "parameters.loss.name", "absolute"),
        ("Classifier", {"members": [{"kind": "KernelClasifier"}]}, "parameters.members[0].kind",
         "KernelClassifier"),
        ("Classifier", {"members": [{"kind": "KernelClassifier", "rul": 1}]},
         "parameters.members[0].rul", "rule"),
    ],
)  # fmt: skip
def test_the_service(kind, parameters, path, meant) -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from onkel.app.http.problems import Problem
    from onkel.app.service.specs import build

    with pytest.raises(Problem) as error:
        build(kind, parameters)
    assert f"Did you mean '{meant}'?" in str(error.value), str(error.value)
    assert error.value.field == path


def test_a_task_of_another_name() -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from onkel.app.http.problems import Problem
    from onkel.app.service.specs import kind_of

    with pytest.raises(Problem, match="Did you mean 'novelty'"):
        kind_of(None, "anomaly")
