"""Whatever is registered is under test: an algorithm that is not in the cases fails the suite."""

from __future__ import annotations

import inspect

import pytest
from helpers import cases, rule_cases
from helpers.sizes import some

from onkel import expansions, kernels, losses, rules, schedules
from onkel.params import Part, registered


def test_every_loss_is_in_the_agreement_cases():
    assert {type(v) for v in cases.LOSSES.values()} == set(losses.REGISTRY.values())
    for kind in losses.REGISTRY.values():
        if "nu" in inspect.signature(kind).parameters:
            assert any(type(v) is kind and v.nu is not None for v in cases.LOSSES.values())


def test_every_kernel_is_in_the_agreement_cases():
    used = set()

    def visit(kernel):
        used.add(type(kernel))
        for value in vars(kernel).values():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, kernels.Kernel):
                    visit(part)

    for kernel, _ in cases.KERNELS.values():
        visit(kernel)
    used.add(kernels.Spectrum)  # tests/kernels/test_strings.py
    used.add(kernels.Spline)  # tests/expansions/test_trees.py: it wants inputs of at least 0
    assert used >= set(kernels.REGISTRY.values())
    assert used >= {kernels.Sum, kernels.Product, kernels.Scaled, kernels.Function}


def test_every_schedule_is_in_the_agreement_cases():
    kinds = {type(rate) for rate, _, _ in cases.SCHEDULES.values()}
    known = {
        v for v in vars(schedules).values() if inspect.isclass(v) and v is not schedules.Schedule
    }
    own = {v for v in known if issubclass(v, schedules.Schedule)}
    assert own - {schedules.Constant} <= kinds


def test_every_rule_and_expansion_is_in_the_agreement_cases():
    used = {type(rule) for rule, _, _ in rule_cases.RULES.values()} | {rules.Norma}
    used.add(rules.RecursiveLeastSquares)  # tests/learner/test_second_order.py: a twin of its own
    assert used == set(rules.REGISTRY.values())
    assert set(rule_cases.EXPANSIONS) == set(expansions.REGISTRY)


def test_two_parts_of_one_word_are_refused():
    class Kind(Part):
        pass

    class First(Kind):
        word = "same"

    class Second(First):
        word = "same"

    with pytest.raises(TypeError, match="Second and First both have the word 'same'"):
        registered(Kind)


@pytest.mark.parametrize("registry", [kernels.REGISTRY, losses.REGISTRY, rules.REGISTRY,
                                      expansions.REGISTRY])  # fmt: skip
def test_names_give_defaults(registry):
    for kind in registry.values():
        part = kind()
        assert part == type(part)(**part.get_params(deep=False))


def test_pairwise_covers_every_pair():
    chosen = cases.pairwise(cases.FACTORS)
    assert len(chosen) < 300
    names = list(cases.FACTORS)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            for x in cases.FACTORS[a]:
                for y in cases.FACTORS[b]:
                    if cases.possible({a: x, b: y}):
                        hit = any(c[a] == x and c[b] == y for c in chosen)
                        assert hit or not _completable({a: x, b: y}), (a, x, b, y)


def _completable(case):
    for name, levels in cases.FACTORS.items():
        if name not in case:
            options = [v for v in levels if cases.possible({**case, name: v})]
            if not options:
                return False
            case = {**case, name: options[0]}
    return True


@pytest.mark.parametrize(
    ("factors", "possible"),
    [
        (cases.FACTORS, cases.possible),
        (rule_cases.FACTORS, rule_cases.possible),
        (rule_cases.PRIMAL_FACTORS, rule_cases.primal_possible),
    ],
    ids=["norma", "rules", "weights"],
)
def test_a_quick_run_has_every_level_too(factors, possible):
    quick = some(cases.pairwise(factors, possible), times=1)
    shown = {(name, repr(level)) for case in quick for name, level in case.items()}
    assert shown == {(name, repr(level)) for name, levels in factors.items() for level in levels}
