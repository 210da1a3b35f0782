"""The first paper audited: its rows, what its printed numbers can mean, and its figures' configurations."""
