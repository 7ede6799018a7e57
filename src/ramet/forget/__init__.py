"""Forget a site: repeat what it has taken part in without it, and certify the repetition."""

from ramet.forget.certificate import Certificate, Descendant
from ramet.forget.descendants import descendants
from ramet.forget.pair import ForgettingError
from ramet.forget.people import People
from ramet.forget.repetition import Repetition, forget

__all__ = [
    "Certificate",
    "Descendant",
    "ForgettingError",
    "People",
    "Repetition",
    "descendants",
    "forget",
]
