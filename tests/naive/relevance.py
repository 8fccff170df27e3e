"""How much each column matters to f: what f does when a row takes one value from another row."""

SHARE, LEAST, ROWS, MOST, FEW = 0.3, 0.2, 256, 32, 4


def sampled(rows, columns):
    """The newest stored rows that are asked about: 4 to 32 of them, fewer the wider they are."""
    return rows[-min(max(ROWS // columns, FEW), MOST) :]


def exchanged(rows, places):
    """The rows, each with these places of the row before it (the first: of the last)."""
    return [
        [rows[i - 1][j] if j in places else value for j, value in enumerate(row)]
        for i, row in enumerate(rows)
    ]


def effects(f, rows, columns=None):
    """The sum over rows and outputs of (f(x) - f(x with a column exchanged))^2, by column.

    A column may stand at several places of a row.
    """
    found = []
    for places in columns or [[j] for j in range(len(rows[0]))]:
        total = 0.0
        for x, other in zip(rows, exchanged(rows, places), strict=True):
            total += sum((a - b) ** 2 for a, b in zip(f(x), f(other), strict=True))
        found.append(total)
    return found


def shares(members, rows, columns=None):
    """The mean over the members, that say anything, of what each column has of all effects."""
    found = []
    for f in members:
        of = effects(f, rows, columns)
        if sum(of) > 0:
            found.append([v / sum(of) for v in of])
    return [sum(column) / len(found) for column in zip(*found, strict=True)] if found else None


def level(values):
    """Values with a mean of 1."""
    mean = sum(values) / len(values)
    return [v / mean for v in values]


class Relevance:
    """A width per column, its mean 1, none far below the others; all 1 until something is known."""

    def __init__(self, columns, places=None):
        self.part = [1 / columns] * columns
        self.width = [1.0] * columns
        self.places = places

    def follow(self, members, rows):
        """Ask the members (functions of a raw row, which give a list) about the stored rows."""
        new = shares(members, sampled(rows, len(self.part)), self.places)
        if new is None:
            return
        self.part = [(1 - SHARE) * p + SHARE * q for p, q in zip(self.part, new, strict=True)]
        self.width = level([max(v, LEAST) for v in level([p**0.5 for p in self.part])])
