"""The graphs that models take as input, and quantities derived from them."""
