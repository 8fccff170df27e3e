"""Terms in the memory of a GPU: a ring of rows, what the products read of them, coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.core.layout import LANES, Program
from onkel.expansions.dense import DenseTerms
from onkel.gpu import launch, memory
from onkel.gpu.launch import Launcher, Ring, Rows, Terms, power_of_two
from onkel.gpu.programs import encode
from onkel.kernels import Kernel
from onkel.saved import Saved

Array = NDArray[Any]

TILE = 256
"""Room for terms comes in multiples of this, so that no tile is cut."""
FIRST = 4 * TILE if not launch.INTERPRETED else TILE
AT_ONCE = 65536
"""Terms that are looked at together where all are gone through."""


class DeviceTerms:
    """The terms of a :class:`~onkel.gpu.learner.GpuLearner`.

    What the learner asks of it is answered on the device; whatever else
    :class:`~onkel.expansions.dense.DenseTerms` can do is asked of a copy on the host. Rows are held
    in float32, whatever the model's `dtype`, in which a file or the host has them.
    """

    has_lane: ClassVar[bool] = False
    """Whether the compiled core's fast lane can learn into such terms."""

    def __init__(
        self, kernel: Kernel, frame: Frame, columns: int, limit: int, device: Any, precision: str,
        dtype: Any = np.float32, members: Sequence[Program] = (),
    ) -> None:  # fmt: skip
        self.kernel, self.frame, self.limit = kernel, single(frame), limit
        self.members = tuple(members) or (kernel.program() or [],)
        """The kernel function of each setting that shares these terms, those alike together."""
        self.dtype = np.dtype(dtype)
        self.device, self.precision = device, precision
        self.columns, self.head, self.count = columns, 0, 0
        self.launcher = self._launcher()
        self.held = self._empty(0)
        self.placed = self._place(self.frame)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "held" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.host(), name)

    def _launcher(self) -> Launcher:
        outputs = max(self.columns // len(self.members), 1)
        groups = [(program, len(list(some))) for program, some in groupby(self.members)]
        functions = [encode(program, self.device) for program, _ in groups]
        return Launcher(
            functions, len(self.frame.center), launch.MODES[self.precision], self.device,
            counts=[outputs * many for _, many in groups], apart=self.frame.apart,
        )  # fmt: skip

    def _empty(self, slots: int) -> Terms:
        return Terms.empty(slots, self.launcher, max(self.columns, 1))

    def _place(self, frame: Frame) -> Any:
        """Return the frame on the device: center, unit, width, shift, most that v may be."""
        most = frame.clip / frame.width
        rows = np.stack([frame.center, frame.unit, frame.width, frame.shift, most])
        return torch.from_numpy(rows).to(self.device)

    # -- reading -------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory of the ring."""
        return self.held.slots * self.bytes_of_one()

    def bytes_of_one(self) -> int:
        """Return what one term takes: row, operand, norm, diagonal, coefficients, birth."""
        launcher, columns = self.launcher, power_of_two(self.columns)
        floats = launcher.d + launcher.wide + launcher.tall + 1 + len(launcher.functions)
        return 4 * floats + 12 * columns + 8

    def order(self, start: int, stop: int) -> Any:
        """Return the places of terms start ... stop - 1, oldest first."""
        at = torch.arange(start, stop, device=self.device) + self.head
        return at % max(self.held.slots, 1)

    def rows(self, start: int, stop: int) -> Array:
        """Return stored rows as a matrix, in the memory of the host."""
        found: Array = self.held.rows[self.order(start, stop)].cpu().numpy()
        return found

    def host(self) -> DenseTerms:
        """Return the same terms in the memory of the host."""
        frame = replace(self.frame, dtype=self.dtype)
        dense = DenseTerms(self.kernel, frame, self.columns, self.limit)
        slots, c = self.held.slots, self.columns
        dense.allocate(slots // LANES, c)
        dense.head, dense.count = self.head, self.count
        if self.count:
            at = self.order(0, self.count)
            rows, births = self.held.rows[at].cpu().numpy(), self.held.births[at].cpu().numpy()
            panel, lane = dense.slots(0, self.count)
            dense.panels[panel, :, lane] = rows
            dense.norms[panel, lane] = frame.norms(rows)
            dense.coef[panel, :, lane] = self.held.coef[:c, at].T.cpu().numpy()
            dense.births[panel * LANES + lane] = births
        return dense

    def scores(self, x: Any) -> Array:
        """Sum over terms of coef * k, one column per output, in stored units."""
        n, c = len(x), self.columns
        out = np.zeros((n, c))
        if not self.count:
            return out
        self.tell()
        rows = self.prepare(x)
        return self._sums(rows, 0, n, oldest=False)

    def _sums(self, rows: Rows, row0: int, n: int, oldest: bool) -> Array:
        room, found = -(-n // TILE) * TILE, np.empty((n, self.columns))
        for share in self.launcher.shares:
            splits = share.splits(n, self.held.slots, self.launcher.most)
            shape = splits, share.columns, room
            partial = torch.empty(shape, dtype=torch.float32, device=self.device)
            self.launcher.sums(share, rows, row0, n, self.held, partial, splits, room, oldest)
            total = partial[:, :, :n].to(torch.float64).sum(0)
            found[:, share.packed.columns] = total.T.cpu().numpy()
        return found

    def norm2(self, columns: int) -> Array:
        """Return the squared norm of each output in stored units, in O(terms^2)."""
        total = np.zeros(columns)
        self.tell()
        for start in range(0, self.count, AT_ONCE // 16):
            stop = min(start + AT_ONCE // 16, self.count)
            values = self._sums(NOTHING, start, stop - start, oldest=True)
            a = self.held.coef[:columns, self.order(start, stop)].T.cpu().numpy()
            total += np.einsum("ic,ic->c", a, values)
        return total

    def tell(self, **more: int) -> None:
        """Tell the device where the ring begins, how many terms it holds, and what else there is.

        `more`: numbers of :class:`~onkel.gpu.launch.Ring`.
        """
        numbers = {"HEAD": self.head, "COUNT": self.count, **more}
        found = [numbers.get(place.name, 0) for place in Ring]
        self.held.ring.copy_(torch.tensor(found, dtype=torch.int64))

    def prepare(self, x: Any, room: Rows | None = None) -> Rows:
        """Return rows (on the device, as they came) ready for the products."""
        return self.launcher.prepare(x, self.placed, self.frame.invariant, room)

    # -- changing ------------------------------------------------------------------------------

    def room_for(self, count: int) -> int:
        """Return how many slots hold so many terms, with some to spare while they grow."""
        most = -(-max(min(self.limit, 2**40), 1) // TILE) * TILE
        if count <= self.held.slots:
            return self.held.slots
        return min(max(-(-count // TILE) * TILE, int(1.5 * self.held.slots), FIRST), most)

    def grow(self, count: int) -> None:
        """Make room for so many terms."""
        slots = self.room_for(count)
        if slots > self.held.slots:
            self._refill(slots, self.order(0, self.count))

    def _refill(self, slots: int, at: Any) -> None:
        """Lay the terms at these places in order from the first slot of a new ring."""
        old, new, n = self.held, self._empty(slots), len(at)
        for name in ("rows", "operand", "norm", "births"):
            getattr(new, name)[:n] = getattr(old, name)[at]
        for name in ("turned", "diag"):
            getattr(new, name)[:, :n] = getattr(old, name)[:, at]
        for name in ("coef", "weights"):
            getattr(new, name)[: self.columns, :n] = getattr(old, name)[: self.columns, at]
        self.held, self.head, self.count = new, 0, n

    def insert_columns(self, at: list[int]) -> None:
        """Insert coefficients of 0 before the columns `at`."""
        coef = self.held.coef[: self.columns].cpu().numpy()
        self.columns += len(at)
        self.launcher = self._launcher()
        self._take_coef(torch.from_numpy(np.insert(coef, at, 0.0, axis=0)).to(self.device))

    def sound(self) -> bool:
        """Whether coefficients are finite, as a file must have them."""
        return bool(torch.isfinite(self.held.coef[: self.columns]).all())

    def _take_coef(self, coef: Any) -> None:
        shape = power_of_two(self.columns), self.held.slots
        if self.held.coef.shape != shape:  # otherwise they stay where they are: graphs know it
            self.held.coef = torch.zeros(shape, dtype=torch.float64, device=self.device)
            self.held.weights = torch.zeros(shape, dtype=torch.float32, device=self.device)
        self.held.coef[: self.columns] = coef
        self.held.coef[self.columns :] = 0.0
        self.held.weights.copy_(self.held.coef)
        self._clear_gone()

    def _clear_gone(self) -> None:
        """Terms that were dropped have no weight."""
        gone = self.order(self.count, self.held.slots)
        self.held.weights[:, gone] = 0.0

    def remix(self, mixing: Array) -> None:
        """Replace every term's coefficients a by a @ mixing (fold, add an output)."""
        c = self.columns
        matrix = torch.from_numpy(np.ascontiguousarray(mixing.T)).to(self.device)
        self._take_coef(matrix @ self.held.coef[:c])

    def wipe(self, columns: list[int], last: int) -> None:
        """Empty some outputs but for the term at place `last` (below 0: none)."""
        coef = self.held.coef[: self.columns].clone()
        for c in columns:
            kept = coef[c, last].clone()
            coef[c] = 0.0
            if last >= 0:
                coef[c, last] = kept
        self._take_coef(coef)

    def drop_empty(self) -> None:
        """Drop terms that no output holds."""
        at = self.order(0, self.count)
        keep = (self.held.coef[: self.columns, at] != 0).any(dim=0)
        if not bool(keep.all()):
            self._refill(self.held.slots, at[keep])

    def reframed(self, frame: Frame) -> DeviceTerms:
        """Return the same terms in a new frame; stored rows change only where they must."""
        other, frame = self.twin(), single(frame)
        other.frame, other.placed = frame, self._place(frame)
        if self.count and not frame.same_storage(self.frame):
            ratio = torch.from_numpy(frame.unit / self.frame.unit).to(self.device)
            move = torch.from_numpy((self.frame.center - frame.center) * frame.unit)
            move, rows = move.to(self.device), torch.empty_like(self.held.rows)
            for start in range(0, self.held.slots, AT_ONCE):
                part = slice(start, start + AT_ONCE)
                rows[part] = self.held.rows[part].to(torch.float64) * ratio + move
            other.held.rows = rows
        other.ready()
        return other

    def ready(self) -> None:
        """Make operands, norms and diagonals anew, from the rows and the frame alone."""
        held = self.held
        for start in range(0, held.slots, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            into = Rows(held.rows, held.operand, held.turned, held.norm, held.diag).part(part)
            self.launcher.ready(into.v, self.placed, self.frame.invariant, False, into)

    def multiplied_by(self, precision: str) -> None:
        """Change the precision of products, in place."""
        self.precision = precision
        self.launcher = self._launcher()
        shape = self.held.slots, self.launcher.wide
        self.held.operand = torch.zeros(shape, dtype=torch.float32, device=self.device)
        self.ready()

    def following(self, x: Any) -> DeviceTerms:
        """Return the terms with their centre near the data (kernels of differences only)."""
        if not (self.frame.invariant and self.count):
            return self
        at = self.order(max(self.count - LANES, 0), self.count)
        recent = self.held.rows[at].cpu().numpy().astype(np.float64)
        frame = self.frame.left_behind(np.asarray(x, np.float64), recent)
        return self if frame is None else self.reframed(frame)

    # -- copies --------------------------------------------------------------------------------

    def twin(self) -> DeviceTerms:
        """Return terms that share all arrays with these."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.held = Terms(**vars(self.held))
        return other

    def copy(self) -> DeviceTerms:
        """Return an independent copy."""
        other = self.twin()
        other.held = Terms(**{name: array.clone() for name, array in vars(self.held).items()})
        return other

    def begin(self, origin: DeviceTerms, rows: int) -> Callable[[], DeviceTerms]:
        """Return a function that gives `origin` back bit for bit, after so many rows at most.

        Refused where there is no room for what they become. Rows come to places that are known:
        what stands there is kept. Operands, norms and diagonals follow from the rows, weights from
        the coefficients.
        """
        memory.check_room(origin, min(origin.count + rows, origin.limit))
        saved, coef = origin.twin(), origin.held.coef.clone()
        at = origin.order(origin.count, origin.count + min(rows, origin.held.slots))
        values, births = origin.held.rows[at], origin.held.births[at]

        def undo() -> DeviceTerms:
            saved.held.rows[at], saved.held.births[at] = values, births
            saved._take_coef(coef[: saved.columns])
            saved.ready()
            return saved

        return undo

    def end(self) -> None:
        """What :meth:`begin` keeps is not needed any more."""

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold: the same as of terms on the host."""
        return self.host().dump()

    def restore(self, saved: Saved, columns: int, t: int) -> None:
        """Become the terms that a file holds, after trial `t`."""
        frame = replace(self.frame, dtype=self.dtype)
        dense = DenseTerms(self.kernel, frame, columns, self.limit)
        dense.restore(saved, columns, t)
        self.columns = columns
        self.launcher = self._launcher()
        whole = len(dense.births) and len(dense.births) % TILE == 0
        slots = len(dense.births) if whole else self.room_for(dense.count)
        self.head, self.count = (dense.head if whole else 0), dense.count
        self.held = self._empty(slots)
        at, n = self.order(0, self.count), dense.count

        def put(values: Array, dtype: Any) -> Any:
            return torch.from_numpy(np.ascontiguousarray(values, dtype)).to(self.device)

        self.held.rows[at] = put(dense.rows(0, n), np.float32)
        self.held.births[at] = put(dense.births_from(0, n), np.int64)
        self.held.coef[:columns, at] = put(dense.coefs(0, n).T, np.float64)
        self.held.weights = self.held.coef.to(torch.float32)
        self.ready()


def single(frame: Frame) -> Frame:
    """Return the frame for rows of single precision."""
    return replace(frame, dtype=np.dtype(np.float32))


NOTHING = Rows(None, None, None, None, None)
