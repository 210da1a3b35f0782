"""Tests of `manyheads.report`."""
