"""`python -m ramet` is `ramet`."""

from ramet.cli.main import main

main()
