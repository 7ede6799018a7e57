"""What a server knows in a round, for tests that call rules themselves."""

from ramet.methods.server import Server
from ramet.randomness import Randomness


def server(number: int = 1, *clients: str) -> Server:
    return Server(clients or ("a", "b", "c", "d"), Randomness(0, "the server", number))
