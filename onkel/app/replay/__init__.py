"""Replay: the rows that a run has read, once more, with other settings beside its own."""
