"""The arithmetic of one secure sum: masking at a site, and unmasking at the server."""

from __future__ import annotations

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
    model: str,
) -> dict[str, Array]:
    """Add a site's own mask and the masks that it has in common with each peer.

    ``model`` is a digest of what the site was sent. The masks of two sites cancel out only if both
    were sent the same, so that a server cannot give one site a model of its own.
    """
    result = masked(terms, _own_mask_key(secrets.own[number], batch, number, site))
    key = secrets.pair_key(batch, site, number)
    for peer, advert in peers.items():
        context = _pair(batch, number, site, peer, model)
        mask_key = agreed_key(key, advert.pair[number], *context)
        result = masked(result, mask_key, subtract=site > peer)
    return result


def seal_shares(
    batch: Batch, site: str, secrets: Secrets, adverts: Mapping[str, Advert]
) -> tuple[dict[str, bytes], bytes]:
    """Shares of all seeds: encrypted for each peer, and those that the site keeps for itself."""
    rounds: dict[str, list[bytes]] = {peer: [] for peer in adverts}
    for number in batch.rounds:
        own, pair = (split(seeds[number], [*adverts]) for seeds in (secrets.own, secrets.pair))
        for peer, parts in rounds.items():
            shares = own[peer] + pair[peer]
            if peer != site:
                key = _channel(secrets, adverts[peer], batch, site, peer)
                shares = sealed(key, number, shares, batch.statement(site, peer))
            parts.append(shares)
    joined = {peer: b"".join(parts) for peer, parts in rounds.items()}
    kept = joined.pop(site)
    return joined, kept


def open_shares(
    content: bytes, batch: Batch, number: int, sender: Advert, site: str, secrets: Secrets
) -> bytes:
    """The shares of both seeds of a peer in a round."""
    key = _channel(secrets, sender, batch, sender.site, site)
    return opened(key, number, content, batch.statement(sender.site, site))


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
    model: str,
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
        model: the digest of what all sites were sent.
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
            context = _pair(batch, number, member, survivor, model)
            mask_key = agreed_key(key, adverts[survivor].pair[number], *context)
            result = masked(result, mask_key, subtract=survivor < member)
    return result


def _own_mask_key(seed: bytes, batch: Batch, number: int, site: str) -> bytes:
    return derived(seed, "own", batch.id, number, site)


def _pair(batch: Batch, number: int, site: str, peer: str, model: str) -> tuple[str | int, ...]:
    return "mask", batch.id, number, model, *sorted((site, peer))


def _channel(own: Secrets, other: Advert, batch: Batch, sender: str, receiver: str) -> bytes:
    return agreed_key(own.channel_key, other.channel, "shares", batch.id, sender, receiver)
