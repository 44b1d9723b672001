"""What an HTTP client did wrong, or what the server cannot do for it: what, where, and the remedy."""

from typing import Any

from numcoke_jax.inference.names import NameIndex
from numcoke_jax.system.errors import UserError

BAD_REQUEST, NOT_FOUND, WRONG_METHOD, TOO_LARGE, TOO_LONG = 400, 404, 405, 413, 414
WRONG_HOST, UNPROCESSABLE, TOO_MANY, FAULT, BUSY = 421, 422, 429, 500, 503


class RequestError(Exception):
    """An answer that is an error.

    Args:
      status: of HTTP.
      what: what is wrong, with what was found.
      where: the parameter, the part of the body or the path that it is about.
      remedy: what to do.
    """

    def __init__(self, status: int, what: str, where: str, remedy: str) -> None:
        super().__init__(what)
        self.status, self.what, self.where, self.remedy = status, what, where, remedy

    def as_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"what": self.what, "where": self.where, "remedy": self.remedy}}

    @classmethod
    def of(cls, error: UserError, where: str, status: int = UNPROCESSABLE) -> "RequestError":
        """The same as a message of the program, whose remedy comes after its first semicolon."""
        what, _, remedy = str(error).partition("; ")
        return cls(status, what, where, remedy or "see GET /api")


def id_of(index: NameIndex, name: str, where: str) -> int:
    """The id of a name.

    Raises:
      RequestError: there is no such name; the remedy has the closest ones.
    """
    try:
        return index.id(name)
    except UserError as error:
        raise RequestError.of(error, where, NOT_FOUND) from None
