"""Tests of `manyheads.experiments`."""
