"""Reports: pure functions of a results folder. They read no clock and no environment, and run no check."""
