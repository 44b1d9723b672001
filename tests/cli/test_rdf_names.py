"""Short names of IRIs, and names of RDF files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.cli import rdf
from numcoke_jax.cli.rdf import shorten_iris
from numcoke_jax.data.files.rdf import is_rdf_name
from numcoke_jax.system.errors import UserError

# Names


def test_last_segments():
    iris = [
        "http://a/b/Berlin",
        "http://a#x",
        "http://a/b/",
        "urn:isbn:1",
        "http://a/",
        "rel",
        "http://a/ü b#",
    ]
    assert shorten_iris(iris, "last", {}, "entities") == ["Berlin", "x", "b", "urn:isbn:1", "a", "rel", "ü b"]
    assert shorten_iris(iris, "none", {}, "entities") == iris


def test_the_longest_prefix_wins_and_what_fits_none_stays():
    prefixes = {"a": "http://a/", "b": "http://a/b/", "other": "http://o/"}
    iris = ["http://a/x", "http://a/b/x", "http://a/b/", "http://c/x"]
    assert shorten_iris(iris, "prefix", prefixes, "entities") == ["a:x", "b:x", "a:b/", "http://c/x"]


@pytest.mark.parametrize(
    ("how", "iris", "message"),
    [
        ("last", ["http://b/x", "http://a/x"], "x for <http://b/x> and <http://a/x>"),
        ("last", ["x", "http://a/x", "http://b#x"], "x for <x> and <http://a/x>"),
        ("prefix", ["p:x", "http://p/x"], "p:x for <p:x> and <http://p/x>"),
    ],
)
def test_colliding_names_are_refused(how, iris, message):
    with pytest.raises(UserError) as caught:
        shorten_iris(iris, how, {"p": "http://p/"}, "relations")
    count = "2 names" if len(iris) == 3 else "1 name"
    assert str(caught.value).startswith(
        f"--shorten={how}: {count} of relations would stand for several IRIs, such as {message}; "
    )


@given(st.lists(st.text("ab/#:", max_size=6), unique=True, max_size=8), st.sampled_from(rdf.SHORTEN))
def test_short_names_are_different_or_refused(iris, how):
    try:
        names = shorten_iris(iris, how, {"p": "a/", "q": "a/b"}, "entities")
    except UserError:
        assert how != "none"
    else:
        assert len(set(names)) == len(iris)


def test_names_of_rdf_files():
    assert [
        name
        for name in ("a.nt", "a.TTL.gz", "b/c.ttl", "nt", "a.gz", "a.txt", "a.nt.zip")
        if is_rdf_name(name)
    ] == ["a.nt", "a.TTL.gz", "b/c.ttl"]
