"""The `ramet` command line, one module per group of commands."""
