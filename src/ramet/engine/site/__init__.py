"""A site: what it computes, what it keeps, and what it lets out."""
