"""What a quick run leaves out: never a value, only combinations."""

from __future__ import annotations

import itertools

import pytest
from helpers.sizes import cover


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("axes", [(5, 4), (2, 2, 7), (1, 3), (6,)], ids=str)
def test_each_value_occurs_so_often_as_it_can(axes, times):
    cases = [tuple(enumerate(at)) for at in itertools.product(*map(range, axes))]
    kept = cover(cases, times)
    for axis, count in enumerate(axes):
        for value in range(count):
            found = sum((axis, value) in cases[place] for place in kept)
            assert found >= min(times, len(cases) // count)
    assert len(kept) <= min(len(cases), times * max(axes) + times)


def test_of_a_product_a_diagonal_is_kept():
    cases = [tuple(enumerate(at)) for at in itertools.product(range(3), range(3))]
    assert sorted(cover(cases)) == [0, 4, 8]
    assert cover([]) == set()


@pytest.mark.few
@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("c", [1, 2, 3])
def test_values_that_come_together_are_one(a, b, c, request):
    """Of nine, three are left in a quick run, and all in a long one; (1, 2) is one of them."""
    mine = [
        i
        for i in request.session.items
        if getattr(i, "originalname", "") == request.node.originalname
    ]
    if len(mine) < 9:
        pytest.skip("only some of them were asked for")
    left = [i.callspec.params for i in mine if not i.get_closest_marker("skip")]
    for names in (("a", "b"), ("c",)):
        assert len({tuple(one[n] for n in names) for one in left}) == 3
    assert len(left) in (3, 9)
