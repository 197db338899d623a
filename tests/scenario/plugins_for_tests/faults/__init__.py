"""The faults that scenarios in these tests may name."""
