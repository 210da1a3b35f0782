"""The five long-range tasks (LRA, 2011.04006) as sequences of bytes: two generated, two read, one of each kind."""
