"""The command `ramet`: one module per group of commands."""
