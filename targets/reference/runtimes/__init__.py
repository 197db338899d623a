"""Runtimes that record steps and replay them: one driver each, for the strategy `events`. Imported when it runs."""
