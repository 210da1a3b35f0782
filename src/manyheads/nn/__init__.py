"""Building blocks that take heads and head_dim apart. Each keeps the part of the record it was built from (`spec`)."""
