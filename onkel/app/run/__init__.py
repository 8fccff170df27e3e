"""One run of the command: from a source through models to outputs, with checkpoints on the way."""
