"""The checks that scenarios in these tests may name."""
