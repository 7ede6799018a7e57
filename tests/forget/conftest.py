"""A certificate that the coordinator and all remaining sites have signed."""

from __future__ import annotations

import pytest

from chartered_sites import Chartered, chartered_sites, signed
from ramet.forget import Certificate


@pytest.fixture(scope="session")
def chartered(tmp_path_factory: pytest.TempPathFactory) -> Chartered:
    made = chartered_sites(tmp_path_factory.mktemp("chartered"))
    signed(made, Certificate.read(made.certificate)).write(made.certificate)
    return made
