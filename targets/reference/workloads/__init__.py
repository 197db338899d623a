"""Workloads of the reference agent: one module each, with GOAL, VARIABLES, `brain(...)` and `facts(...)`."""
