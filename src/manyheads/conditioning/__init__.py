"""How well attention is conditioned: kappa, the condition number of the concatenated heads, measured and predicted."""
