"""The resource of a kind that does not name one. Pure.

Upstream: sigs.k8s.io/controller-tools/pkg/crd/spec.go, which uses github.com/gobuffalo/flect (v1.0);
github.com/rancher/wrangler/pkg/name (GuessPluralName)
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

_VOWELS = "aeiou"

_UNCOUNTABLE: Final = (
    "aircraft bison chassis deer equipment fish graffiti information jeans media money moose news police rice salmon "
    "series sheep shrimp species swine trout tuna you blues beef"
)
_IRREGULAR: Final = (
    "child children foot feet goose geese man men human humans mouse mice tooth teeth woman women person people "
    "adieu adieux bureau bureaus criterion criteria ganglion ganglia lexicon lexica phenomenon phenomena taxon taxa "
    "medium media stadium stadiums aquarium aquaria auditorium auditoria symposium symposia curriculum curriculums "
    "quota quotas alumnus alumni bacillus bacilli cactus cacti focus foci locus loci nucleus nuclei radius radii "
    "syllabus syllabi corpus corpora genus genera alumna alumnae vertebra vertebrae larva larvae apex apices "
    "codex codices index indices latex latices vertex vertices vortex vortices appendix appendices radix radices "
    "helix helices crisis crises ellipsis ellipses genesis geneses oasis oases thesis theses base bases basis bases "
    "abuse abuses cause causes clause clauses excuse excuses fuse fuses house houses misuse misuses muse muses "
    "pause pauses ache aches topaz topazes buffalo buffaloes potato potatoes tomato tomatoes dwarf dwarfs hoof hoofs "
    "thief thieves chive chives hive hives move moves movie movies cookie cookies agenda agendas formula formulas "
    "shoe shoes"
)
# Not at the end of a longer word: a box is not an ox.
_IRREGULAR_ALONE: Final = "ox oxen louse lice die dice axis axes alias aliases use uses toe toes"
# The order is the priority.
_SUFFIXES: Final = (
    "tive tives eaf eaves oaf oaves afe aves arf arves rfe rves rf rves lf lves fe ves ay ays ey eys oy oys quy quies "
    "uy uys y ies eau eaux bula bulae hedron hedra ium ia seum seums eum ea oum oa dum da elum ela ilum ila olum ola "
    "ulum ula llum lla ylum yla imum ima ernum erna gnum gna brum bra crum cra terum tera serum sera trum tra "
    "antum anta atum ata entum enta etum eta itum ita otum ota utum uta ctum cta ovum ova trix trices iasis iases "
    "mesis meses kinesis kineses resis reses gnosis gnoses opsis opses ysis yses ouse ouses lause lauses us uses "
    "ch ches io ios sh shes ss sses ez ezzes iz izzes tz tzes zz zzes ano anos lo los to tos oo oos o oes x xes"
)


def _pairs(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return list(zip(words[::2], words[1::2], strict=True))


@cache
def _words() -> dict[str, str]:
    """Return the plural of each irregular word, and of each irregular plural itself."""
    singular = dict([*_pairs(_IRREGULAR), *_pairs(_IRREGULAR_ALONE)])
    plural = {each: each for each in (*_UNCOUNTABLE.split(), *singular.values())}
    return {**plural, **singular}


@cache
def _rules() -> tuple[tuple[str, str], ...]:
    """Return suffixes and what replaces them. Irregular words at the end of longer ones come first."""
    uncountable = [(word, word) for word in _UNCOUNTABLE.split()]
    return (*reversed([*uncountable, *_pairs(_IRREGULAR)]), *_pairs(_SUFFIXES))


@lru_cache(maxsize=1024)
def pluralize(kind: str) -> str:
    """Return the plural of a kind in lower case, as kubebuilder and controller-gen write it.

    Words that end in ``s`` and match no rule stay, such as ``metrics``.

    >>> [pluralize(kind) for kind in ("policy", "gateway", "ingress", "index", "leaf", "redis", "settings", "metadata")]
    ['policies', 'gateways', 'ingresses', 'indices', 'leaves', 'redis', 'settings', 'metadata']
    """
    if (plural := _words().get(kind)) is not None:
        return plural
    for suffix, replacement in _rules():
        if kind.endswith(replacement):
            return kind
        if kind.endswith(suffix):
            return kind.removesuffix(suffix) + replacement
    return kind if kind.endswith("s") else f"{kind}s"


def guess_plural(kind: str) -> str:
    """Return the plural of a schema's id, as norman guesses it. Kinds have `pluralize`.

    >>> [guess_plural(kind) for kind in ("Policy", "Gateway", "Ingress", "Mesh", "Pod", "Endpoints")]
    ['Policies', 'Gateways', 'Ingresses', 'Meshes', 'Pods', 'Endpoints']
    """
    lower = kind.lower()
    if not kind or lower == "endpoints":
        return kind
    if lower.endswith(("s", "x", "ch", "sh")):
        return f"{kind}es"
    if lower.endswith("y") and len(kind) > 1 and lower[-2] not in _VOWELS:
        return f"{kind[:-1]}ies"
    return f"{kind}s"


def plural_of(kind: Any) -> str:
    """Return the resource of a typed class: its ``plural``, or that of `pluralize`."""
    plural: str = getattr(kind, "plural", "")
    return plural or pluralize(kind.gvk.kind.lower())
