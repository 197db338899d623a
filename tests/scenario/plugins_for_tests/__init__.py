"""Small plug-ins of every kind, so that the tests of scenarios depend on no real one."""
