"""Every record there is, and the one way records are written and read. Standard library only."""
