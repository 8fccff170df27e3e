"""Dicts that stand in for Spark's states: what workers do, without Spark."""

from __future__ import annotations

from typing import Any


class FakeMap(dict):
    """A map state; it counts what is asked of it."""

    def __init__(self) -> None:
        self.reads, self.writes = 0, 0

    def getValue(self, key):
        self.reads += 1
        return self.get(key)

    def updateValue(self, key, value):
        self.writes += 1
        self[key] = tuple(value)

    def removeKey(self, key):
        self.pop(key, None)


class FakeValue:
    value = None

    def get(self):
        return self.value

    def update(self, value):
        self.value = value


class FakeHandle:
    """What a task is given; `of` is what the store holds."""

    def __init__(self, of: dict[str, Any]) -> None:
        self.of = of

    def getMapState(self, name, key, value, ttl=None):
        return self.of.setdefault(name, FakeMap())

    def getValueState(self, name, schema, ttl=None):
        return self.of.setdefault(name, FakeValue())


class Times:
    def __init__(self, now: int = -1) -> None:
        self.now = now

    def getCurrentProcessingTimeInMs(self):
        return self.now
