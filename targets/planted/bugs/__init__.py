"""Planted bugs: one small file each, with one class of the same name that overrides one piece of the driver.

Its docstring says how the bug comes about in real agents, what exposes it, and which check must notice.
"""
