"""What follows from the record of a model: its cost, redesigns, controls, named originals. Standard library only."""
