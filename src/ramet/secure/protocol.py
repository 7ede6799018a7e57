"""The arithmetic of one secure sum: masking at a site, and unmasking at the server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ramet.errors import RametError
from ramet.payload import Array, Arrays
from ramet.secure.adverts import Advert, Batch, Secrets
from ramet.secure.masks import SEED_BYTES, agreed_key, derived, masked, pair_key
from ramet.secure.shares import combined, opened, sealed, split


def mask_terms(
    terms: Arrays,
    batch: Batch,
    number: int,
    site: str,
    secrets: Secrets,
    peers: Mapping[str, Advert],
    context: str,
) -> dict[str, Array]:
    """Add a site's own mask and the masks that it has in common with each peer.

    ``context`` is a digest of what the site was sent and of its settings. The masks of two sites
    cancel out only if both have the same, and terms of the same names and shapes, so that a server
    cannot give one site a model or a learning rate of its own, or ask it for other arrays.
    """
    result = masked(terms, _own_mask_key(secrets.own[number], batch, number, site))
    key = secrets.pair_key(batch, site, number)
    for peer, advert in peers.items():
        facts = _pair(batch, number, site, peer, context, terms)
        mask_key = agreed_key(key, advert.pair[number], *facts)
        result = masked(result, mask_key, subtract=site > peer)
    return result


def seal_shares(
    batch: Batch, site: str, secrets: Secrets, adverts: Mapping[str, Advert], view: str
) -> tuple[dict[str, bytes], bytes]:
    """Shares of all seeds: encrypted for each peer, and those that the site keeps for itself.

    ``view`` is a digest of the keys of all sites. Only a peer that was given the same keys can open
    the shares, so that a server cannot tell sites that there are different sites, and thereby
    lower their threshold.
    """
    rounds: dict[str, list[bytes]] = {peer: [] for peer in adverts}
    for number in batch.rounds:
        own, pair = (split(seeds[number], [*adverts]) for seeds in (secrets.own, secrets.pair))
        for peer, parts in rounds.items():
            shares = own[peer] + pair[peer]
            if peer != site:
                key = _channel(secrets, adverts[peer], batch, site, peer)
                shares = sealed(key, number, shares, batch.statement(site, peer, view))
            parts.append(shares)
    joined = {peer: b"".join(parts) for peer, parts in rounds.items()}
    kept = joined.pop(site)
    return joined, kept


def open_shares(
    content: bytes,
    batch: Batch,
    number: int,
    sender: Advert,
    site: str,
    secrets: Secrets,
    view: str,
) -> bytes:
    """The shares of both seeds of a peer in a round."""
    key = _channel(secrets, sender, batch, sender.site, site)
    return opened(key, number, content, batch.statement(sender.site, site, view))


def revealed(shares: bytes, survived: bool) -> bytes:
    """The share that unmasks a site: of its own mask if it is in the sum, else of its key."""
    return shares[:SEED_BYTES] if survived else shares[SEED_BYTES:]


def unmasked(
    total: Arrays,
    batch: Batch,
    number: int,
    survivors: Sequence[str],
    adverts: Mapping[str, Advert],
    members: Sequence[str],
    shares: Mapping[str, Mapping[str, bytes]],
    context: str,
) -> dict[str, Array]:
    """The sum of the survivors' terms.

    Args:
        total: the sum of their masked terms.
        batch: the rounds of the keys.
        number: the round.
        survivors: the sites whose terms are in the sum.
        adverts: the keys of all sites that shares were made for.
        members: the sites whose masks are in the terms.
        shares: for each member the shares that sites have revealed, by the site.
        context: the digest of what all sites were sent, and of their settings.
    """
    result = dict(total)
    for member in members:
        seed = combined(shares[member], [*adverts])
        if member in survivors:
            result = masked(result, _own_mask_key(seed, batch, number, member), subtract=True)
            continue
        key = pair_key(seed, batch.id, number, member)
        if key.public_key().public_bytes_raw() != adverts[member].pair[number]:
            raise RametError(f"the shares of {member}'s key do not fit together.")
        for survivor in survivors:
            facts = _pair(batch, number, member, survivor, context, total)
            mask_key = agreed_key(key, adverts[survivor].pair[number], *facts)
            result = masked(result, mask_key, subtract=survivor < member)
    return result


def _own_mask_key(seed: bytes, batch: Batch, number: int, site: str) -> bytes:
    return derived(seed, "own", batch.id, number, site)


def _pair(
    batch: Batch, number: int, site: str, peer: str, context: str, terms: Arrays
) -> tuple[str | int, ...]:
    form = json.dumps([[name, *array.shape] for name, array in sorted(terms.items())])
    return "mask", batch.id, number, context, form, *sorted((site, peer))


def _channel(own: Secrets, other: Advert, batch: Batch, sender: str, receiver: str) -> bytes:
    return agreed_key(own.channel_key, other.channel, "shares", batch.id, sender, receiver)
