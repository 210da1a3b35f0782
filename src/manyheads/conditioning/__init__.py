"""How well attention is conditioned: kappa of the concatenated heads as measured, and as theory says it should be."""
