"""Built-in datasets: downloaded through PyG, or generated."""
