"""docs/settings.md from the table of keys: `python -m numcoke_jax.config.page > docs/settings.md`."""

from collections.abc import Iterable

from numcoke_jax.config.models import MODELS
from numcoke_jax.config.schema import KEYS, SECTIONS
from numcoke_jax.system.errors import printable

START = """\
# Settings

All keys, made from `numcoke_jax/config/schema.py` by `python -m numcoke_jax.config.page`. A file of
`configs/` sets them from Python, the command line by `--KEY=VALUE`. Those marked † may change when a
run resumes.
"""
MODELS_START = """\
## Keys that each model looks at

Keys of training, data and evaluation serve all models. Of the others a model looks at those listed here; the
rest may have any value, except that switching on a part that the model lacks is refused.

| `model.name` | keys |
|---|---|"""
ONLY = {"table": " (graphs from tables only)", "folder": " (graphs in folders only)"}  # by scope


def settings_page() -> str:
    """The page: a table of the keys of each section, and one of the keys of each model."""
    lines = [START, *_table(name for name in KEYS if "." not in name)]
    for section, title in SECTIONS.items():
        lines += [f"## `{section}`: {title}\n"]
        lines += _table(name for name in KEYS if name.startswith(f"{section}."))
    rows = (f"| `{name}` | {', '.join(f'`{key}`' for key in model.keys)} |" for name, model in MODELS.items())
    return "\n".join([*lines, MODELS_START, *rows]) + "\n"


def _table(names: Iterable[str]) -> list[str]:
    rows = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for name in names:
        key = KEYS[name]
        mark, default = " †" if key.resumable else "", printable(key.default).replace("''", "")
        shown = f"`{default}`" if default else ""
        rows.append(
            f"| `{name}`{mark} | {shown} | {key.allowed.needs()} | {key.meaning}{ONLY.get(key.scope, '')} |"
        )
    return [*rows, ""]


if __name__ == "__main__":
    print(settings_page(), end="")
