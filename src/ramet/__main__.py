"""Makes `python -m ramet` equivalent to `ramet`."""

from ramet.cli.main import main

main()
