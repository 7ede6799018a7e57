"""The graphs that models compute on, and what is derived from them."""
