"""Sources: files, pipes and brokers, read in blocks that a restart would cut alike.

>>> from onkel.streams import sources
>>> sources.next_cut(5000, 4096)
8192
"""

from onkel.streams.sources.ahead import ahead
from onkel.streams.sources.assemble import Rules
from onkel.streams.sources.block import Bad, Block, next_cut, without
from onkel.streams.sources.opening import FORMATS, Reading, open_source
from onkel.streams.sources.schema import Column, Roles, Schema, SourceError, types_of
from onkel.streams.sources.source import Source
from onkel.streams.sources.waiting import Stopped

__all__ = [
    "FORMATS",
    "Bad",
    "Block",
    "Column",
    "Reading",
    "Roles",
    "Rules",
    "Schema",
    "Source",
    "SourceError",
    "Stopped",
    "ahead",
    "next_cut",
    "open_source",
    "types_of",
    "without",
]
