"""Settings by name: which clients take part, and what data each of them holds."""

from collections.abc import Callable

from ramet.partition.base import Reading, Setting
from ramet.partition.by_community import (
    actor,
    amazon_ratings,
    chameleon,
    citeseer,
    coauthor_cs,
    coauthor_physics,
    computers,
    cora,
    minesweeper,
    photo,
    pubmed,
    questions,
    roman_empire,
    squirrel,
    tolokers,
)
from ramet.partition.by_country import twitch
from ramet.partition.by_dataset import (
    at_random,
    bio_sm,
    bio_sm_sn,
    bio_sn_cv,
    by_label,
    by_size,
    cross_diff,
    cross_sim,
    multi,
    single,
    tiny,
)
from ramet.partition.by_link_kind import acm_links, planted_links
from ramet.partition.by_relation import acm_hetero, amazon, imdb_hetero, planted_hetero
from ramet.partition.cuts import AtRandom, ByLabel, BySize, Cut
from ramet.partition.own import absolute_sites, own

SETTINGS: dict[str, Callable[..., Setting]] = {
    "tiny": tiny,
    "single": single,
    "cross-sim": cross_sim,
    "cross-diff": cross_diff,
    "multi": multi,
    "bio-sm": bio_sm,
    "bio-sm-sn": bio_sm_sn,
    "bio-sn-cv": bio_sn_cv,
    "at-random": at_random,
    "by-size": by_size,
    "by-label": by_label,
    "acm-links": acm_links,
    "planted": planted_links,
    "cora": cora,
    "citeseer": citeseer,
    "pubmed": pubmed,
    "coauthor-cs": coauthor_cs,
    "coauthor-physics": coauthor_physics,
    "photo": photo,
    "computers": computers,
    "actor": actor,
    "chameleon": chameleon,
    "squirrel": squirrel,
    "minesweeper": minesweeper,
    "tolokers": tolokers,
    "questions": questions,
    "roman-empire": roman_empire,
    "amazon-ratings": amazon_ratings,
    "twitch": twitch,
    "amazon": amazon,
    "acm-hetero": acm_hetero,
    "imdb-hetero": imdb_hetero,
    "planted-hetero": planted_hetero,
    "own": own,
}

__all__ = [
    "SETTINGS",
    "AtRandom",
    "ByLabel",
    "BySize",
    "Cut",
    "Reading",
    "Setting",
    "absolute_sites",
]
