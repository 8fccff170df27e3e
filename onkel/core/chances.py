"""Scores made into probabilities row by row, and mixed under log loss.

A member's scores z become chances by a link with a slope a, offsets b and a lapse e, the share of
labels that no score explains:

    ``q = softmax(a z + b)``,  ``p_c = e / C + (1 - e) q_c``

(one score z of two classes stands for -z/2 and z/2). After each row slope and offsets make a Newton
step on the log loss, with the curvature of the last 1000 rows or so, for the share of the row that
is no lapse; e follows the mean of the other share. A lone member has no offsets: its most likely
class is the one with the highest score.

Two joint experts take ``softmax(sum of v_m f_m)``, f the members' centred logarithms: v by Newton
steps with the curvature of all members together, and by plain gradient steps. The answer is the
mean of all experts' chances, members' and joint ones, by weights with fixed share:

    ``w_i <- (1 - share) w_i p_i(y) / (sum of the same) + share / experts``

which is mixing under log loss at rate 1. Compiled (``src/chances.hpp``), or in NumPy below.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.bindable import Bindable, whole
from onkel.saved import Saved

Array = NDArray[Any]

HORIZON = 1000.0
"""Rows over which curvature and lapse look back."""
PRIOR = 4.0
"""Curvature before the first row."""
FLAT = 1e-3
"""The least curvature of a row."""
SLOPE, FLATTEST, STEEPEST = 2.0, 0.01, 50.0
"""Of a link: at first, at least, at most."""
LAPSE, LEAST_LAPSE, MOST_LAPSE = 0.02, 1e-6, 0.5
PRESSED = 10.0
"""Scores beyond it count by their logarithm."""
NEWTON_PRIOR = 3.0
"""Curvature of the joint expert before the first row."""
GRADIENT = 0.02
"""Rate of the other one."""
REACH = 8.0
"""What a member's centred logarithm counts for at most, where it is joined."""
FAINT = 1e-3
"""Classes less likely add no curvature."""
JOINT = 2
"""Joint experts, where there are members to join."""


@dataclass
class Chances(Bindable):
    """What is known of the links, the joint experts and the weights.

    Examples
    --------
    >>> state = Chances.empty(members=1, outputs=1)
    >>> scores, y = np.array([[[2.0]], [[-1.0]]]), np.array([[1.0], [-1.0]])
    >>> before = state.learn(scores, y)  # log-odds of the second class, before each row
    >>> bool(before[0, 0] > 0 > before[1, 0])
    True
    """

    averaged = ("link", "offset", "bend", "joint", "bow", "said")
    added = ("losses", "count")
    low = MappingProxyType(
        {"link": 0.0, "bend": 1e-6, "said": 0.0, "weights": 0.0, "losses": 0.0, "count": 0}
    )

    outputs: int
    share: float
    link: Array
    """[members][3]: slope, its curvature, lapse."""
    offset: Array
    """[members][classes]."""
    bend: Array
    """[members][classes]: curvature of the offsets."""
    joint: Array
    """[2][members]: v, by Newton and by gradient."""
    bow: Array
    """[members][members]: curvature of the first v; the lower half."""
    said: Array
    """[members]: how much each says of late, the mean size of its centred logarithms."""
    weights: Array
    """[experts]: members, then joint ones."""
    losses: Array
    """[experts + 1]: cumulative log loss of each, and of the mixture."""
    count: Array
    """[1]: rows learned."""

    @classmethod
    def empty(cls, members: int, outputs: int, share: float = 0.0) -> Self:
        """Return the state before the first row."""
        experts = members + (JOINT if members > 1 else 0)
        made = cls(
            outputs, share, np.tile([SLOPE, PRIOR, LAPSE], (members, 1)), np.zeros((members, 0)),
            np.zeros((members, 0)), np.full((JOINT, members), 1.0 / members),
            np.eye(members) * NEWTON_PRIOR, np.zeros(members), np.full(experts, 1.0 / experts),
            np.zeros(experts + 1), np.zeros(1, np.int64),
        )  # fmt: skip
        made._unlink()
        return made

    @property
    def members(self) -> int:
        """How many members there are."""
        return len(self.link)

    @property
    def influence(self) -> Array:
        """What each member counts for now: 1 in all.

        A joint expert's weight goes to the members by the size of what each adds to its answers.

        Examples
        --------
        >>> state = Chances.empty(members=2, outputs=1)
        >>> state.joint[0], state.said[:], state.weights[:] = [3, 1], [1, 1], [0.2, 0.2, 0.6, 0]
        >>> state.influence
        array([0.65, 0.35])
        """
        size = np.abs(self.joint) * np.maximum(self.said, 1e-9)
        joint = self.weights[self.members :]
        size = size[: len(joint)] / size[: len(joint)].sum(axis=1, keepdims=True)
        found = self.weights[: self.members] + joint @ size
        return np.asarray(found / found.sum())

    @property
    def classes(self) -> int:
        """How many classes the outputs stand for."""
        return max(self.outputs, 2)

    # -- files ---------------------------------------------------------------------------------

    @classmethod
    def restored(cls, saved: Saved, members: int, outputs: int, share: float = 0.0) -> Self:
        """Return what a file holds, of so many members and outputs."""
        made = cls.empty(members, outputs, share)
        made.load(saved)
        slope, curve, lapse = made.link.T
        if (
            np.any((slope < FLATTEST / 2) | (slope > STEEPEST))
            or np.any(curve <= 0)
            or np.any(lapse > MOST_LAPSE)
        ):
            raise saved.refuse("link", "has a slope, a curvature or a lapse that no link has")
        if np.any(lapse < LEAST_LAPSE):
            raise saved.refuse("link", "has a lapse that is too small")
        saved.finish()
        return made

    # -- outputs -------------------------------------------------------------------------------

    def _unlink(self) -> None:
        """Let the links begin anew: what they compared has changed."""
        self.link[:] = [SLOPE, PRIOR, LAPSE]
        shape = (self.members, self.classes)
        self.offset, self.bend = np.zeros(shape), np.full(shape, PRIOR)

    def add_column(self) -> None:
        """Add an output; where there was one class alone, links begin anew."""
        self.outputs += 1
        if self.outputs <= 2:
            self._unlink()
            return
        mean = self.offset.mean(axis=1, keepdims=True)
        self.offset = np.hstack([self.offset, mean])
        self.bend = np.hstack([self.bend, np.full_like(mean, PRIOR)])

    def mirror_column(self) -> None:
        """Turn the single output round."""
        self.offset, self.bend = (
            np.ascontiguousarray(a[:, ::-1]) for a in (self.offset, self.bend)
        )

    def split_column(self) -> None:
        """Give the single output a mirror: z and -z stand for what -z/2 and z/2 stood for."""
        self.mirror_column()
        self.outputs = 2
        self.link[:, 0] /= 2.0
        self.link[:, 1] *= 4.0

    def arrange(self, order: list[int]) -> None:
        """Put the outputs in another order."""
        self.offset, self.bend = (np.ascontiguousarray(a[:, order])
                                  for a in (self.offset, self.bend))  # fmt: skip

    # -- rows ----------------------------------------------------------------------------------

    def _writable(self) -> bool:
        return bool(self.link.flags.writeable)

    def bound(self) -> Any:
        """Return what learns and looks at rows; `y` are +1 and -1.

        Told are log-odds of a single output, else centred logarithms of the chances.
        """
        made = core.compiled.Chances if core.has_lane() else Plain
        return made(
            self.outputs, self.share, self.link, self.offset, self.bend, self.joint, self.bow,
            self.said, self.weights, self.losses, self.count,
        )  # fmt: skip


class Plain:
    """The same in NumPy."""

    def __init__(
        self, outputs: int, share: float, link: Array, offset: Array, bend: Array, joint: Array,
        bow: Array, said: Array, weights: Array, losses: Array, count: Array,
    ) -> None:  # fmt: skip
        self.outputs, self.share, self.link, self.offset = outputs, share, link, offset
        self.bend, self.joint, self.bow, self.said = bend, joint, bow, said
        self.weights, self.losses, self.count = weights, losses, count
        self.members, self.classes = len(link), max(outputs, 2)

    def learn(self, scores: Array, y: Array, out: Array) -> None:
        """Answer rows and learn them."""
        shape = (-1, self.members, self.outputs)
        for i, (row, wanted) in enumerate(zip(scores.reshape(shape), y, strict=True)):
            place = int(np.ravel(wanted)[0] > 0) if self.outputs == 1 else int(np.argmax(wanted))
            self._learn(row, place, out.reshape(-1, self.outputs)[i])

    def look(self, scores: Array, out: Array) -> None:
        """Answer rows."""
        into = out.reshape(-1, self.outputs)
        for i, row in enumerate(scores.reshape(-1, self.members, self.outputs)):
            into[i] = self._told(self.weights @ self._answers(row)[0])

    def _told(self, mixed: Array) -> Array:
        found = np.log(mixed)
        return found[1:] - found[:1] if self.outputs == 1 else found - found.mean()

    def _answers(self, scores: Array) -> tuple[Array, Array, Array, Array]:
        """Return the experts' chances, and of the members z, q and f."""
        z = pressed(scores)
        z = np.hstack([-z / 2, z / 2]) if self.outputs == 1 else z
        q = softmax(self.link[:, :1] * z + self.offset)
        lapse = self.link[:, 2:]
        p = lapse / self.classes + (1 - lapse) * q
        if self.members == 1:
            return p, z, q, p
        logs = np.log(p)
        f = np.clip(logs - logs.mean(axis=1, keepdims=True), -REACH, REACH)
        more = LEAST_LAPSE / self.classes + (1 - LEAST_LAPSE) * softmax(self.joint @ f)
        return np.vstack([p, more]), z, q, f

    def _learn(self, scores: Array, y: int, out: Array) -> None:
        p, z, q, f = self._answers(scores)
        mixed = self.weights @ p
        out[:] = self._told(mixed)
        self.count[0] += 1
        self.losses -= np.log(np.append(p[:, y], mixed[y]))
        moved = (1 - self.share) * self.weights * p[:, y] / mixed[y]
        self.weights[:] = moved + self.share / len(self.weights)
        if self.members > 1:
            self._learn_joint(f, y)
        self._learn_links(z, q, y)

    def _learn_links(self, z: Array, q: Array, y: int) -> None:
        count, keep, wanted = self.classes, 1 - 1 / HORIZON, np.arange(self.classes) == y
        slope, curve, lapse = self.link.T
        stray = lapse / count / (lapse / count + (1 - lapse) * q[:, y])
        kept, error = (1 - stray)[:, None], q - wanted
        mean = (q * z).sum(axis=1, keepdims=True)
        bent = (1 - stray) * (q * (z - mean) ** 2).sum(axis=1)
        curve[:] = keep * curve + np.maximum(bent, FLAT) + (1 - keep) * PRIOR
        slope -= (1 - stray) * (error * z).sum(axis=1) / curve
        np.clip(slope, FLATTEST, STEEPEST, out=slope)
        if self.members > 1:  # else the highest score stays the most likely class
            now = kept * np.maximum(q * (1 - q), FLAT / count)
            self.bend[:] = keep * self.bend + now + (1 - keep) * PRIOR
            self.offset -= kept * error / self.bend
        lapse += (stray - lapse) / min(self.count[0] + 99, HORIZON)
        np.clip(lapse, LEAST_LAPSE, MOST_LAPSE, out=lapse)

    def _learn_joint(self, f: Array, y: int) -> None:
        wanted, p = np.arange(self.classes) == y, softmax(self.joint @ f)
        self.said += (np.abs(f).mean(axis=1) - self.said) / min(self.count[0], HORIZON)
        slopes = (p - wanted) @ f.T
        self.joint[1] -= GRADIENT * slopes[1]
        mean = f @ p[0]
        keep = 1 - 1 / HORIZON
        self.bow[:] = keep * self.bow + (1 - keep) * NEWTON_PRIOR * np.eye(self.members)
        for c in np.flatnonzero((p[0] >= FAINT) | wanted):
            u = f[:, c] - mean
            self.bow += np.tril(max(p[0, c], FAINT) * np.outer(u, u))
        self.joint[0] -= np.linalg.solve(whole(self.bow), slopes[0])


def pressed(z: Array) -> Array:
    """Return scores, those beyond 10 by their logarithm.

    Examples
    --------
    >>> pressed(np.array([3.0, -10.0])), pressed(np.array([-100.0])).round(2)
    (array([  3., -10.]), array([-33.03]))
    """
    size = np.abs(z)
    beyond = PRESSED * (1 + np.log(np.maximum(size, PRESSED) / PRESSED))
    return np.where(size <= PRESSED, z, np.copysign(beyond, z))


def softmax(values: Array) -> Array:
    """Return ``exp(v) / sum of the same`` over the last axis."""
    found = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(found / found.sum(axis=-1, keepdims=True))
