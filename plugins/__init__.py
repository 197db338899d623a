"""Where users meet the harness: the pytest plugin and the command line."""
