"""Alerts brought to where people look: a webhook, a command. Nothing is sent unless asked for.

A message waits in a queue until a thread of its own has brought it to its target; whoever learns
never waits for that.
"""

from onkel.app.notify.signing import signature, verify

__all__ = ["signature", "verify"]
