"""Tests of `manyheads.sweep`."""
