"""A consortium on real machines: one coordinator behind a proxy, and sites that call in."""
