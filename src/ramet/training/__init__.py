"""What a client does between two messages."""
