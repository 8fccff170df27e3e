"""The ways to learn rows, one file each; see :mod:`onkel.learner.engine`."""
