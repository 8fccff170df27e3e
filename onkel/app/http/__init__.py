"""A server on one socket: access, refusals, counts; for the service and for the live page alone."""
