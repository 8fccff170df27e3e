"""Modules whose examples need an extra are left out where it is not installed."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("river") else ["onkel/river/*"]
