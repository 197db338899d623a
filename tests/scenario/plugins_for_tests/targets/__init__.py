"""The targets that scenarios in these tests may name."""
