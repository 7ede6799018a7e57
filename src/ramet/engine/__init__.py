"""The rounds of a run, independent of how messages are carried."""
