"""The version of Ramet, in one place that every room may import."""

__version__ = "0.1.0"
