"""A consortium on real machines: a coordinator behind a proxy, and sites that connect to it."""
