"""Among how many sites the noise of a run's sums is divided, and whether it can be."""

from __future__ import annotations

from ramet.engine.site.noisy_sums import check_summed, part_deviation
from ramet.errors import RametError
from ramet.experiment.experiment import Experiment
from ramet.privacy.accounting import needed_noise
from ramet.privacy.budget import SENSITIVITY, Budget, NoiseShare


def noise_share(experiment: Experiment) -> NoiseShare | None:
    """How noise per site is divided in sums in fixed point; None if there is none in a sum.

    Without masks, the server sees each site's term, so that each has all of the noise.
    """
    budget, settings = experiment.settings.budget, experiment.settings
    if budget is None or budget.unit != "site" or experiment.method.summation is None:
        return None
    return budget.share(len(experiment.clients)) if settings.secure else NoiseShare()


def smallest_sum(experiment: Experiment) -> int:
    """The smallest number of sites over which the run's budget allows a sum; 0 for any."""
    share = noise_share(experiment) if experiment.settings.secure else None
    return 0 if share is None else share.survivors


def check_noise_share(experiment: Experiment) -> None:
    """Check that the run's budget and method fit noise inside sums, if it has that."""
    budget, share = experiment.settings.budget, noise_share(experiment)
    if budget is None:
        return
    if experiment.settings.secure and share is not None:
        _check_survivors(share, len(experiment.clients))
    elif (budget.survivors, budget.colluders) != (None, None):
        raise RametError(
            "`survivors` and `colluders` in --dp say among whom the noise of a secure sum is "
            "divided. They need unit=site and --secure."
        )
    if share is not None:
        check_summed(experiment.method)
        _check_bits(experiment, budget, share)


def _check_survivors(share: NoiseShare, sites: int) -> None:
    """Check that secure sums hold out against as many colluding sites as the noise does."""
    from ramet.secure.shares import holds  # needs an extra

    survivors, colluders = share.survivors, share.colluders
    if survivors > sites:
        raise RametError(
            f"survivors={survivors} in --dp is more than the {sites} clients of the setting."
        )
    if not holds(sites, survivors, colluders):
        raise RametError(
            f"--dp assumes {colluders} colluding sites, but with survivors={survivors} of {sites} "
            "clients, these and the coordinator could unmask single updates. Choose more "
            "survivors or fewer colluders."
        )


def _check_bits(experiment: Experiment, budget: Budget, share: NoiseShare) -> None:
    """Check that the integers that are summed are fine enough for the noise, and have room."""
    summation, sensitivity = experiment.method.summation, SENSITIVITY[budget.unit]
    assert summation is not None
    steps = experiment.settings.rounds
    noise = sensitivity * needed_noise(budget.epsilon, budget.delta, 1.0, steps, discrete=True)
    part_deviation(noise, budget.clip, summation, share, len(experiment.clients))
