"""Why a row of a young key was, or was not, an alert: others have judged it, too."""

from __future__ import annotations

from dataclasses import dataclass

from onkel.explain.outcome import RarityExplanation, one_in


@dataclass(frozen=True)
class YoungExplanation(RarityExplanation):
    """Why a row of a key with few rows was, or was not, an alert of a fleet with ``share=True``.

    Score and threshold are the fleet's, as ``predict`` has them. A feature's effect is the score
    less what it would be with the feature as it is expected of the key.
    """

    age: int = 0
    """Rows that its key has learned."""
    said: str = ""
    """Of an alert: what the command and the service say of it."""

    @property
    def cause(self) -> str:
        """What the row is unusual by.

        "answered" (an alert for no other reason than that one like it was answered as a fault), or
        "young": beside the rows of other keys.
        """
        like = self.precedent
        return "answered" if like is not None and like.decided else "young"

    def outcome(self) -> str:
        """The outcome in words."""
        return (
            f"{self.word()}: {one_in(self.score)} is as unusual among rows of keys as young "
            f"({self._learned()}; alerts from {one_in(self.threshold)})"
        )

    def _learned(self) -> str:
        return "1 row learned" if self.age == 1 else f"{self.age} rows learned"

    @property
    def sentence(self) -> str:
        """The outcome, and of an alert what the command says of it; of both what was answered."""
        like = self.precedent
        if like is None or not like.decided:
            return f"{self.outcome()}. {self.said}".strip()
        words = f"{self.word()}{self._answered(like)}, of a young key ({self._learned()})."
        return f"{words} {self.said}".strip()
