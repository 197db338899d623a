"""The strategies that scenarios in these tests may name."""
