"""Commas in numbers: before the decimals, or between the thousands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from onkel.columns.cells import ENOUGH, NUMBER

_COMMA = re.compile(r"[+-]?(?:[0-9]+,[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_GROUPS = re.compile(
    r"[+-]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:\.[0-9]{3}){2,}(?:,[0-9]*)?|"
    r"(?:\.[0-9]{3})+,[0-9]*|(?:[ '’\u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?)"
)

_SIGNS = re.compile(r"[%‰€$£¥]|EUR|USD|GBP|CHF")


def has_signs(cells: Sequence[Any]) -> bool:
    """Whether a column holds numbers with a sign of money or of a share.

    Examples
    --------
    >>> has_signs(["12 %", "7.5%"]), has_signs(["€3.50", "€1,200.00"]), has_signs(["5 stars"])
    (True, True, False)
    """
    texts = [c.strip() for c in cells if isinstance(c, str)]
    plain = [_SIGNS.sub("", t, count=1).strip() for t in texts if _SIGNS.search(t)]
    held = sum(any(p.fullmatch(t) for p in (NUMBER, _COMMA, _GROUPS)) for t in plain)
    return bool(plain) and held >= ENOUGH * len(cells)


def commas_in(cells: Sequence[Any]) -> str:
    """Return what commas are in a column of texts: "decimal", "groups" of thousands, or "".

    One comma before three digits in each of them may be either, and is taken for groups:
    that is told, where a wrong decimal would not be.

    Examples
    --------
    >>> commas_in(["3,14", "2"]), commas_in(["1,234", "12,500"]), commas_in(["3.14", "2,5"])
    ('decimal', 'groups', '')
    """
    texts = [c.strip() for c in cells if isinstance(c, str)]
    commas = [t for t in texts if _COMMA.fullmatch(t)]
    groups = [t for t in texts if _GROUPS.fullmatch(t)]
    whole = sum(_WHOLE.fullmatch(t) is not None for t in texts)
    if commas and len(groups) < len(commas) and len(commas) + whole >= ENOUGH * len(cells):
        return "decimal"
    return "groups" if groups and len(groups) + whole >= ENOUGH * len(cells) else ""
