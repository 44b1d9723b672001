"""What is wrong with one line of a tab-separated file, and what to do about it."""

from collections.abc import Collection

SEPARATORS = (",", ";", "|", "\\t")  # the last: a backslash and a t, as programs print tabs


def line_problem(line: bytes, columns: tuple[str, str, str], plain: Collection[str] = ()) -> tuple[str, str]:
    """(what is wrong with a line, a remedy); ("", "") for a good or blank line.

    Args:
      line: without its end.
      columns: names of the three columns.
      plain: those of them that may be blank here, because their reader checks their content.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        remedy = "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8"
        return f"byte 0x{line[error.start]:02x} at byte {error.start + 1} is not UTF-8", remedy
    if "\0" in text:
        return "holds a NUL character", "the file is binary or UTF-16; save it as UTF-8 text"
    if not text.strip():
        return "", ""
    fields = text.split("\t")
    if len(fields) != 3:
        return f"expected 3 tab-separated fields, found {len(fields)}", _remedy(text, fields, columns)
    blank = [
        name for name, field in zip(columns, fields, strict=True) if name not in plain and not field.strip()
    ]
    return (f"the {blank[0]} is blank", "fill it in or remove the line") if blank else ("", "")


def _remedy(text: str, fields: list[str], columns: tuple[str, str, str]) -> str:
    """What to do about a line that does not have three fields."""
    filled = [field for field in fields if field.strip()]
    if len(fields) == 1:
        if text.lstrip().startswith("#"):
            return "comments are not read; remove them"
        if text.strip().isdecimal():
            return "a line with the number of lines is not read; remove it"
        if max(map(text.count, SEPARATORS)) >= 2:
            return "the fields seem to be separated by another character; separate them by single tabs"
        if len(text.split()) >= 3:
            return "the fields seem to be separated by spaces; separate them by single tabs"
    elif len(filled) == 3 and filled == fields[:3]:
        return "some lines end in an extra tab; remove it"
    elif len(filled) == 3:
        return "some fields are empty or separated by several tabs; separate them by single tabs"
    return f"each line needs {' <tab> '.join(columns)} and nothing else"
