"""The one exception that carries a message for the user."""


class UserError(Exception):
    """Something the user can fix: a wrong config key, a malformed file, a busy workdir.

    The message says what is wrong, where (`path:line` or config key), what was found and what to do.
    Commands print it as one line on stderr and end with exit code 2, without a traceback.
    """
