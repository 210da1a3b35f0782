"""Ours beside a peer, interleaved in one process; ratios are what counts. Results go to evidence/."""
