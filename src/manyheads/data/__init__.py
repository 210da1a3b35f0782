"""Datasets and the way from a stored image to a batch; everything random is a function of (seed, step, sample)."""
