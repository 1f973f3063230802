"""The resource of a kind: kubebuilder's plurals, which flect makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk import GroupVersionKind, Model, Object
from opsdk.apimachinery.plurals import plural_of, pluralize
from opsdk.children.kinds import built_in_kinds
from opsdk.rbac.resources import resource_of

# Kind in lower case, and its plural by the rules of flect, which kubebuilder and controller-gen use.
KUBEBUILDER = (
    "policy policies,gateway gateways,key keys,survey surveys,ingress ingresses,address addresses,"
    "status statuses,bus buses,redis redis,dns dns,metrics metrics,settings settings,endpoints endpoints,box boxes,"
    "proxy proxies,mesh meshes,switch switches,search searches,fish fish,starfish starfish,index indices,"
    "webindex webindices,matrix matrices,vertex vertices,appendix appendices,analysis analyses,synopsis synopses,"
    "crisis crises,axis axes,basis bases,database databases,base bases,leaf leaves,shelf shelves,knife knives,"
    "safe saves,proof proofs,quiz quizzes,topaz topazes,hero heroes,photo photos,studio studios,repo repoes,"
    "person people,salesperson salespeople,man men,human humans,child children,mouse mice,ox oxen,sandbox sandboxes,"
    "die dice,datum data,data data,metadata metadata,medium media,criterion criteria,quota quotas,schema schemas,"
    "series series,news news,information information,alias aliases,release releases,lease leases,cache caches,"
    "house houses,cause causes,use uses,archive archives,directive directives,area area,replica replicas,"
    "bookshelf bookshelves,cronjob cronjobs,formula formulas,focus foci,virus viruses"
)


@pytest.mark.parametrize(("kind", "plural"), [pair.split() for pair in KUBEBUILDER.split(",")])
def test_plurals_are_kubebuilders(kind: str, plural: str) -> None:
    """Endings y, s, x, ch, sh, f, o, sis and irregular words have kubebuilder's plural."""
    assert pluralize(kind) == plural


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12))
def test_a_plural_is_a_resource_name(kind: str) -> None:
    """Every kind has a plural of lower case letters, and a regular plural in ``s`` stays as it is."""
    plural = pluralize(kind)
    assert plural.isascii()
    assert plural.islower()
    if plural == f"{kind}s":
        assert pluralize(plural) == plural or plural.endswith(("us", "ss", "sis", "sys"))


def test_the_plural_of_each_built_in_kind_is_its_resource() -> None:
    """Rules for built-in kinds without a class name resources that exist."""
    for gvk in built_in_kinds():
        resource = resource_of(gvk).resource
        assert resource_of(f"{resource}.{gvk.group}" if gvk.group else resource).gvk is not None


def test_a_class_may_name_its_plural() -> None:
    """The ``plural`` of a class takes precedence over the rules."""

    class Spec(Model):
        """Nothing."""

    class Index(Object[Spec, None]):
        """A kind."""

        gvk = GroupVersionKind("plurals.opsdk.dev", "v1", "Index")

    class Named(Object[Spec, None]):
        """The kind with another plural."""

        gvk = GroupVersionKind("plurals.opsdk.dev", "v2", "Index")
        plural = "indexes"

    assert [plural_of(Index), plural_of(Named)] == ["indices", "indexes"]
