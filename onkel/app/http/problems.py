"""One shape for every refusal: ``{"error": {"code", "message", "field", ...}}``."""

from __future__ import annotations

from typing import Any


class Problem(Exception):
    """A request that is refused: what is wrong, in which field, and with which HTTP status.

    Examples
    --------
    >>> Problem(404, "unknown_model", "There is no model 'a'.", "name").content()
    {'error': {'code': 'unknown_model', 'message': "There is no model 'a'.", 'field': 'name'}}
    """

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, **extra: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.extra = extra
        self.headers: dict[str, str] = {}

    def content(self) -> dict[str, Any]:
        """Return what goes to the client."""
        error = {"code": self.code, "message": self.message, "field": self.field, **self.extra}
        return {"error": error}


def busy(code: str, message: str, seconds: int = 1, status: int = 503) -> Problem:
    """Return a refusal that passes: the client may come again after so many seconds."""
    problem = Problem(status, code, message, retry_after=seconds)
    problem.headers["Retry-After"] = str(seconds)
    return problem
