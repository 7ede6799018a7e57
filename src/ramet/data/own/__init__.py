"""User-defined graphs: a TOML file per site describes its data files."""
