"""The addresses of the JSON API: what each takes and gives; what is asked is checked here."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numcoke_jax.cli.serve.request_errors import BAD_REQUEST, UNPROCESSABLE, RequestError
from numcoke_jax.inference.predict import KNOWN, AnswerSettings
from numcoke_jax.system.errors import did_you_mean, printable

if TYPE_CHECKING:
    from numcoke_jax.cli.serve.answers import Answers

MOST_ANSWERS, MOST_NAMES, MOST_TRIPLES, MOST_CHANGES = 1000, 100, 1000, 50
REPEATED = ("set",)
Given = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Endpoint:
    """An address of the API.

    Attributes:
      path: of the URL.
      about: what it answers.
      parameters: name -> meaning.
      answer: (answers, the given parameters) -> JSON values; None: not there yet.
    """

    path: str
    about: str
    parameters: Mapping[str, str]
    answer: Callable[["Answers", Given], Any]

    def checked(self, given: Sequence[tuple[str, str]]) -> Given:
        """The parameters of a query, each with its values.

        Raises:
          RequestError: a parameter is unknown, or given twice.
        """
        found: dict[str, list[str]] = {}
        for name, value in given:
            if name not in self.parameters:
                hint = did_you_mean(name, self.parameters).removeprefix("; ")
                takes = ", ".join(self.parameters) or "none"
                what = f"{self.path} has no parameter {printable(name)}"
                raise RequestError(BAD_REQUEST, what, printable(name), hint or f"it takes {takes}")
            if name in found and name not in REPEATED:
                raise RequestError(BAD_REQUEST, f"{name} is given twice", name, "give it once")
            found.setdefault(name, []).append(value)
        if len(found.get("set", ())) > MOST_CHANGES:
            what = f"{len(found['set'])} changes"
            raise RequestError(BAD_REQUEST, what, "set", f"give at most {MOST_CHANGES}")
        return found


def _text(given: Given, name: str) -> str:
    """A parameter that must be there."""
    if not given.get(name, [""])[0]:
        raise RequestError(BAD_REQUEST, f"{name} is missing", name, f"add {name}=NAME")
    return given[name][0]


def _count(given: Given, name: str, default: int, most: int) -> int:
    text = given.get(name, [str(default)])[0]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        remedy = f"give an integer from 1 to {most:,}"
        raise RequestError(UNPROCESSABLE, f"{printable(text)} is not a possible {name}", name, remedy)
    return int(text)


def _entities(answers: "Answers", given: Given) -> Any:
    return answers.entities(given.get("prefix", [""])[0], _count(given, "limit", 20, MOST_NAMES))


def _predict(answers: "Answers", given: Given) -> Any:
    if ("head" in given) == ("tail" in given):
        what = "both head and tail are given" if "head" in given else "head is missing"
        remedy = "give head to rank tails, or tail to rank heads; POST /api/score scores pairs"
        raise RequestError(BAD_REQUEST, what, "head", remedy)
    known = given.get("known", ["exclude"])[0]
    if known not in KNOWN:
        remedy = f"give one of {', '.join(KNOWN)}"
        raise RequestError(UNPROCESSABLE, f"{printable(known)} is not a possible known", "known", remedy)
    settings = AnswerSettings(top=_count(given, "top", 10, MOST_ANSWERS), known=known)
    head, tail = (_text(given, end) if end in given else None for end in ("head", "tail"))
    return answers.predict(head, tail, _text(given, "relation"), settings, given.get("set", ()))


def _explain(answers: "Answers", given: Given) -> Any:
    head, relation, tail = (_text(given, name) for name in ("head", "relation", "tail"))
    return answers.explain(head, relation, tail, given.get("set", ()))


CHANGE = "FIELD=VALUE: what if it had this value (no VALUE: missing)? May be repeated"
ENDPOINTS = (
    Endpoint(
        "/api/run",
        "The model, its relations, and its fields with the range of their values.",
        {},
        lambda answers, given: answers.run(),
    ),
    Endpoint(
        "/api/entities",
        "Entities of which the name, or a word of it, begins with a text; case is ignored.",
        {"prefix": "the text; none: any name", "limit": f"names at most (20; up to {MOST_NAMES})"},
        _entities,
    ),
    Endpoint(
        "/api/entity",
        "The values of an entity; null where missing.",
        {"name": "of the entity"},
        lambda answers, given: answers.entity(_text(given, "name")),
    ),
    Endpoint(
        "/api/predict",
        "Ranked tails of a head, or heads of a tail, with scores and probabilities (null: unknown).",
        {
            "head": "a name, to rank tails",
            "tail": "a name, to rank heads instead",
            "relation": "a name",
            "top": f"answers at most (10; up to {MOST_ANSWERS:,})",
            "known": "exclude: without known facts (the default); mark: with them and their split",
            "set": f"{CHANGE}; every answer then has `before`, its probability without the changes",
        },
        _predict,
    ),
    Endpoint(
        "/api/explain",
        "Why a fact has its score: terms, compared fields, positions, attention, experts, what-if.",
        {
            "head": "a name",
            "relation": "a name",
            "tail": "a name",
            "set": f"of the head, or as tail.FIELD=VALUE of the tail: {CHANGE}",
        },
        _explain,
    ),
    Endpoint(
        "/api/cells",
        "Intervals of an entity's missing values. Status 202 while they are computed: ask again.",
        {"entity": "a name"},
        lambda answers, given: answers.cells(_text(given, "entity")),
    ),
)
SCORE_PATH = "/api/score"
SCORE_ABOUT = (
    'Scores of pairs: POST {"triples": [[head, relation, tail], ...]}, at most '
    f"{MOST_TRIPLES:,}. `likelier` is the end that more likely stands above the other."
)


def scored(answers: "Answers", body: bytes) -> Any:
    """What `SCORE_PATH` answers.

    Raises:
      RequestError: the body is not what it should be, or a name does not exist.
    """
    remedy = 'send {"triples": [["head", "relation", "tail"]]} in UTF-8'
    try:
        triples = json.loads(body)["triples"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RequestError(BAD_REQUEST, 'the body is not JSON with "triples"', "body", remedy) from None
    if not isinstance(triples, list):
        raise RequestError(BAD_REQUEST, "triples is not a list", "triples", remedy)
    if not 1 <= len(triples) <= MOST_TRIPLES:
        what = f"{len(triples):,} triples"
        raise RequestError(UNPROCESSABLE, what, "triples", f"send 1 to {MOST_TRIPLES:,}")
    for place, row in enumerate(triples):
        if not isinstance(row, list) or len(row) != 3 or not all(isinstance(name, str) for name in row):
            raise RequestError(BAD_REQUEST, "is not three names", f"triples[{place}]", remedy)
    return answers.score(triples)
