"""Labels of every kind, late classes, weights."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import KernelClassifier, losses


@pytest.fixture
def blobs(rng):
    """Three clusters with labels that first appear one after the other."""
    X = rng.normal(size=(300, 2)) * 0.4
    y = rng.integers(0, 3, 300)
    y[:40] = 0
    y[40:90] %= 2
    return X + np.array([[0, 0], [3, 0], [0, 3]])[y], y


@pytest.mark.parametrize("negative_positive", [(-1, 1), (0, 1), (False, True)])
def test_binary_from_the_start(rng, negative_positive):
    X = rng.normal(size=(200, 2))
    y = np.array(negative_positive)[(X[:, 0] > 0).astype(int)]
    y[:20] = negative_positive[1]
    base = KernelClassifier()
    want = base.predict_then_learn(X, np.where(y == negative_positive[1], 1, -1), output="decision")
    clf = KernelClassifier()
    decision = clf.predict_then_learn(X, y, output="decision")
    assert decision.shape == (200,)
    assert np.array_equal(decision, want)
    assert clf.classes_.tolist() == list(negative_positive)
    assert clf.predict(X).dtype == y.dtype
    first = KernelClassifier().predict_then_learn(X[:21], y[:21])
    assert np.all(first == negative_positive[1])  # nothing else was known


def test_renaming_labels_renames_predictions(rng):
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    names = np.array(["no", "yes"])[y]
    a, b = KernelClassifier().fit(X, y), KernelClassifier().fit(X, names)
    assert np.array_equal(a.decision_function(X), b.decision_function(X))
    assert np.array_equal(np.array(["no", "yes"])[a.predict(X)], b.predict(X))


def test_classes_never_come_from_later_rows(blobs):
    """The block call predicts what the row-by-row call predicts, new classes included."""
    X, y = blobs
    for labels in (y, np.array(["ant", "bee", "cow"])[y], y + 5):
        whole, rows = KernelClassifier(), KernelClassifier()
        a = whole.predict_then_learn(X, labels)
        b = np.concatenate(
            [rows.predict_then_learn(X[i : i + 1], labels[i : i + 1]) for i in range(300)]
        )
        assert a.tolist() == b.tolist()
        first_two = np.flatnonzero(y == 2)[0]
        assert labels[first_two] not in a[: first_two + 1].tolist()
        np.testing.assert_allclose(
            whole.decision_function(X), rows.decision_function(X), atol=1e-12
        )
        assert whole.classes_.tolist() == sorted(set(labels.tolist()))
        assert np.mean(whole.predict(X) == labels) > 0.95


def test_late_class_starts_at_zero_and_others_are_untouched(blobs):
    X, y = blobs
    first = np.flatnonzero(y == 2)[0]
    clf = KernelClassifier().partial_fit(X[:first], y[:first])
    before = clf.decision_function(X)
    clf.partial_fit(X[first : first + 1], y[first : first + 1])
    after = clf.decision_function(X)
    assert after.shape == (300, 3)
    # the row moved the known classes by one step; class 2 holds that one term only
    row = clf._learner.terms.coefs(0, clf.n_terms_)
    assert np.count_nonzero(row[:, 2]) == 1
    np.testing.assert_allclose(np.sign(before), np.sign(after[:, 1]), atol=2)


def test_columns_equal_separate_binary_models(rng):
    """One kernel row shared, but each column is the one-against-rest learner."""
    X = rng.normal(size=(150, 3))
    y = rng.integers(0, 4, 150)
    clf = KernelClassifier(scale=False).partial_fit(X, y, classes=[0, 1, 2, 3])
    for c in range(4):
        one = KernelClassifier(scale=False).partial_fit(X, np.where(y == c, 1, -1))
        np.testing.assert_allclose(
            clf.decision_function(X)[:, c], one.decision_function(X), rtol=1e-10, atol=1e-12
        )


def test_one_class_for_ever(rng):
    clf = KernelClassifier()
    pred = clf.predict_then_learn(rng.normal(size=(50, 2)), np.array(["only"] * 50))
    assert pred[0] is None
    assert set(pred[1:]) == {"only"}
    assert clf.classes_.tolist() == ["only"]


def test_no_class_known_yet():
    clf = KernelClassifier()
    assert clf.predict_one([0.0]) is None
    assert clf.learn_one([0.0], "a").predict_one([1.0]) == "a"
    given = KernelClassifier()
    assert given.predict_then_learn([[0.0]], ["c"], classes=["a", "b", "c"]).tolist() == ["a"]


def test_zero_score_predicts_positive_and_is_a_mistake():
    clf = KernelClassifier(fit_intercept=False)
    assert clf.predict_then_learn([[0.0]], [1]).tolist() == [1]
    assert clf.diagnostics_["mistakes"] == 1


def test_mistakes_are_counted_as_predicted(blobs):
    X, y = blobs
    clf = KernelClassifier()
    pred = clf.predict_then_learn(X, y, classes=[0, 1, 2])
    # the first row ties at 0: predicted right by luck, counted as a mistake
    assert clf.diagnostics_["mistakes"] == np.count_nonzero(pred != y) + 1


def test_weight_scales_the_step_and_zero_skips(rng):
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    weight = np.where(np.arange(100) % 3 == 0, 0.0, 1.0)
    a = KernelClassifier().partial_fit(X, y, sample_weight=weight)
    b = KernelClassifier().partial_fit(X[weight > 0], y[weight > 0])
    assert a.t_ == b.t_
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-12)
    one, two = KernelClassifier(), KernelClassifier()
    one.partial_fit(X[:1], y[:1], sample_weight=[2.5])
    two.partial_fit(X[:1], y[:1])
    ratio = one.decision_function(X) / two.decision_function(X)
    np.testing.assert_allclose(ratio, 2.5)


def test_class_weight(rng):
    X = rng.normal(size=(2000, 2))
    y = (X[:, 0] + 0.8 * rng.normal(size=2000) > 1.5).astype(int)
    plain = KernelClassifier(loss="logistic").fit(X, y)
    even = KernelClassifier(loss="logistic", class_weight="balanced").fit(X, y)
    heavy = KernelClassifier(loss="logistic", class_weight={1: 20.0}).fit(X, y)
    found = [np.mean(m.predict(X)[y == 1]) for m in (plain, even, heavy)]
    assert found[0] < found[1]
    assert found[0] < found[2]


def test_probabilities(blobs):
    X, y = blobs
    clf = KernelClassifier(loss=losses.Logistic()).fit(X, y)
    p = clf.predict_proba(X)
    assert p.shape == (300, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(X))
    live = KernelClassifier(loss="logistic").predict_then_learn(X, y, output="probability")
    assert live.shape == (300, 3)


def test_numbers_of_several_types_are_one_kind_of_label():
    clf = KernelClassifier().partial_fit(np.arange(6.0)[:, None], [0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
    clf.partial_fit([[9.0]], [3])
    assert clf.classes_.tolist() == [0, 1, 2, 3]
    rows = [[0.0], [2.0], [9.0]]
    want = clf.predict(rows).tolist()
    assert clf.predict_then_learn(rows, [0, 2, 3])[0] == want[0]


@pytest.mark.parametrize("labels", [[0, 2, 4], [-1, 5, 7], [1, 2, 3], [0, -1, 1], [3, 1, 0]])
def test_only_labels_that_were_seen_are_classes(rng, labels):
    y = rng.choice(labels, 200)
    y[0] = labels[0]
    X = rng.normal(size=(200, 2)) + 3 * y[:, None]
    clf, rows = KernelClassifier(), KernelClassifier()
    predicted = clf.predict_then_learn(X, y)
    single = [rows.predict_then_learn(X[i : i + 1], y[i : i + 1])[0] for i in range(200)]
    assert clf.classes_.tolist() == sorted(labels)
    assert set(predicted[1:].tolist()) <= set(labels)
    assert predicted.tolist()[1:] == single[1:]
    np.testing.assert_allclose(clf.decision_function(X), rows.decision_function(X), atol=1e-12)
    assert clf.diagnostics_["mistakes"] == np.count_nonzero(predicted[1:] != y[1:]) + 1


@pytest.mark.parametrize("names", [[0, 1], [-1, 1], [False, True], ["a", "b"], [1, 2]])
def test_balanced_weights_do_not_depend_on_cuts(rng, names):
    X = rng.normal(size=(200, 2))
    y = np.array(names)[(X[:, 0] > 0.5).astype(int)]
    y[:5] = names[0]
    whole = KernelClassifier(class_weight="balanced").partial_fit(X, y)
    rows = KernelClassifier(class_weight="balanced")
    for i in range(200):
        rows.partial_fit(X[i : i + 1], y[i : i + 1])
    np.testing.assert_allclose(whole.decision_function(X), rows.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), "x", True])
def test_class_weights_are_checked(weight):
    with pytest.raises(ValueError, match=r"class_weight\[0\] must be a number in \[0, inf\)"):
        KernelClassifier(class_weight={0: weight}).fit([[0.0], [1.0]], [0, 1])


def test_one_known_class_has_one_probability(rng):
    for label in (1, 0, "a"):
        clf = KernelClassifier(loss="logistic").partial_fit(rng.normal(size=(3, 2)), [label] * 3)
        assert clf.classes_.tolist() == [label]
        assert clf.predict_proba(np.zeros((4, 2))).tolist() == [[1.0]] * 4
        assert clf.decision_function(np.zeros((4, 2))).shape == (4,)
        assert clf.predict(np.zeros((2, 2))).tolist() == [label] * 2


def test_mistakes_of_the_average_are_those_it_makes(rng):
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    clf = KernelClassifier(average=True)
    decision = clf.predict_then_learn(X, y, output="decision")
    assert clf.diagnostics_["mistakes"] == np.count_nonzero(decision * (2 * y - 1) <= 0)


def test_sparse_rows_are_made_dense_block_by_block(rng):
    """A wide sparse matrix in one call takes little more than one dense block."""
    import tracemalloc

    sparse = pytest.importorskip("scipy.sparse")
    X = sparse.random_array((6000, 2000), density=1e-3, rng=rng, format="csr")
    y = np.asarray(X[:, [0]].todense()).ravel() > 0
    clf = KernelClassifier(expansion="window")
    tracemalloc.start()
    clf.partial_fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * X.shape[0] * X.shape[1] * 8


def test_before_any_class_the_decision_is_zero():
    model = KernelClassifier().partial_fit(np.zeros((0, 3)), [])
    assert model.decision_function(np.ones((2, 3))).tolist() == [0.0, 0.0]


def test_the_loss_beside_a_rule_is_named_by_its_parameters():
    model = KernelClassifier(rule="perceptron")
    assert model.get_params()["loss__margin"] == 0.0
    assert model.set_params(loss__power=1.0).loss.margin == 0.0


def test_labels_of_several_kinds_in_a_list_stay_what_they_are(rng):
    model = KernelClassifier().partial_fit(rng.normal(size=(4, 1)), [0, 1, "x", 0])
    model.learn_one([0.5], 1)
    assert model.class_count_ == {0: 2, 1: 2, "x": 1}


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("loss", ["soft_margin", "logistic"])
def test_the_predicted_class_is_the_most_likely_one_far_from_all_points(rng, loss, classes):
    """Scores fade to 0 there, and probabilities of several classes round to the same."""
    X = rng.normal(size=(300, 2))
    model = KernelClassifier(loss=loss, fit_intercept=False)
    model.fit(X, np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3, 1.0, 1.5][: classes - 1]))
    far = np.column_stack([np.linspace(-60, 60, 300), np.zeros(300)])
    p, scores = model.predict_proba(far), model.decision_function(far)
    assert np.any(np.abs(scores).reshape(len(far), -1).max(axis=1) < 1e-17)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(far))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-15)
