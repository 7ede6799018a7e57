"""Networks and scripts that an exported model is handed over with. They do not import Ramet."""
