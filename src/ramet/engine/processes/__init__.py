"""Clients in this process and in others on this machine."""
