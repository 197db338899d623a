"""Crash states of one recorded run, captured incrementally and put back."""
