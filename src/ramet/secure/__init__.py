"""The cryptography of secure sums (Bonawitz et al., CCS 2017), without messages and files.

All primitives are those of `cryptography`, and Shamir's secret sharing is that of PyCryptodome.
"""

from ramet.errors import RametError

try:
    import Crypto  # noqa: F401
    import cryptography  # noqa: F401
except ModuleNotFoundError as error:
    raise RametError(
        f"secure sums need {error.name}. Install it: pip install 'ramet[secure]'"
    ) from error
