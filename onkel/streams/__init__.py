"""Streams: seeded generators of drifting data."""
