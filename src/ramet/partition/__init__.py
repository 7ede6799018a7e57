"""Settings by name: which clients take part, and what data each of them holds."""

from collections.abc import Callable

from ramet.partition.base import Reading, Setting
from ramet.partition.by_community import parts_of
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
from ramet.partition.by_hospital import abide
from ramet.partition.by_link_kind import acm_links, planted_links
from ramet.partition.by_relation import amazon, planted_hetero, typed_parts_of
from ramet.partition.by_target import by_target
from ramet.partition.given import given
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
    "cora": parts_of("Cora's papers", "Planetoid", "Cora"),
    "citeseer": parts_of("CiteSeer's papers", "Planetoid", "CiteSeer"),
    "pubmed": parts_of("PubMed's papers", "Planetoid", "PubMed"),
    "coauthor-cs": parts_of("computer scientists", "Coauthor", "CS", 512),
    "coauthor-physics": parts_of("physicists", "Coauthor", "Physics", 512),
    "photo": parts_of("photography products on Amazon", "Amazon", "Photo"),
    "computers": parts_of("computers on Amazon", "Amazon", "Computers"),
    "actor": parts_of("actors who share a page on Wikipedia", "Actor", "Actor"),
    "chameleon": parts_of("Wikipedia's pages on chameleons, filtered", "Filtered", "Chameleon"),
    "squirrel": parts_of("Wikipedia's pages on squirrels, filtered", "Filtered", "Squirrel"),
    "minesweeper": parts_of("fields of Minesweeper", "Heterophilous", "Minesweeper", 0, "roc-auc"),
    "tolokers": parts_of("workers on Toloka", "Heterophilous", "Tolokers", 0, "roc-auc"),
    "questions": parts_of("users of Yandex Q", "Heterophilous", "Questions", 0, "roc-auc"),
    "roman-empire": parts_of("words of Wikipedia's Roman Empire", "Heterophilous", "Roman-empire"),
    "amazon-ratings": parts_of("products rated on Amazon", "Heterophilous", "Amazon-ratings"),
    "twitch": twitch,
    "abide": abide,
    "amazon": amazon,
    "acm-hetero": typed_parts_of("ACM papers, their authors and subjects", "acm"),
    "imdb-hetero": typed_parts_of("IMDB films, directors, actors and keywords", "imdb"),
    "planted-hetero": planted_hetero,
    "planted-targets": by_target,
    "own": own,
    "given": given,
}

__all__ = [
    "SETTINGS",
    "Reading",
    "Setting",
    "absolute_sites",
]
