"""Questions as records: arms x seeds x basis at a scale, what the papers printed, and the rule that gives the
verdict."""
