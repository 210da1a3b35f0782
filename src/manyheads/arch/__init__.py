"""What a model is, what it costs, and the papers audited. Standard library only."""
