"""What is usual in the whole fleet, for keys that are new: ``Fleet(..., share=True)``.

``f = (1 - w) f_fleet + w g_key``, ``w = n / (n + 100)`` after n rows of a key

f_fleet is one detector that learns the rows of all keys, each standardised by what is known of its
own key (:mod:`~onkel.fleet.sharing.usual`); g_key is the key's own detector. Both say log p. Their
mean is ranked among those of keys of about the same age (:mod:`~onkel.fleet.sharing.bands`), so
that young keys alert no more often than old ones. When its own warm-up is over, a key is on its
own.
"""

from onkel.fleet.sharing.store import Shared, check_shared

__all__ = ["Shared", "check_shared"]
