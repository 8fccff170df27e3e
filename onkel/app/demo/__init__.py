"""The demonstration: a simulated plant, a detector and a classifier, and their report."""
