"""Our code and a peer's take turns in one process, and the result is the ratio of their speeds. Records go to
evidence/."""
