"""The server: its loop, its rules, its state, and how replies come in."""
