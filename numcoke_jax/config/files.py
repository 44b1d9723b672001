"""A config file -> a checked config.  Whatever is wrong with the file is reported in one line.

The file is compiled afresh on every start: Python's own cache of compiled modules recognises an edited file
by its size and a time stamp, and an experiment must never run with the values of a minute ago.
"""

import difflib
import os
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.checks import check_flat, check_keys, flatten, without_removed
from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import KEYS, default_config, nested
from numcoke_jax.system.errors import LONGEST_REASON, UserError, printable, shown_path
from numcoke_jax.system.files import home_path, read_json

TRAIN_FILES = ("train.txt", "train.txt.gz", "train.txt.zip")  # one of them makes a folder a graph's


def load_config(path: str) -> ConfigDict:
    """The config that `get_config()` of the file returns, its keys checked one by one.

    `path` may be the name of a shipped config, and may end in ":PRESET", one of `presets.PRESETS`, which is
    then applied.

    Rules that combine keys are left to `checks.check_config`: overrides may still satisfy them.

    Raises:
      UserError: the file is missing, unreadable or not Python, has no get_config(), or raises; or a key
        is unknown, missing or has a value that its rule refuses; or the preset does not exist.
    """
    path, preset = split_preset(path)
    path = str(_found(path))
    module = _run_file(Path(path))
    if not callable(module.__dict__.get("get_config")):
        raise UserError(f"{shown_path(path)} has no function get_config(): a config file must define one")
    try:
        config = module.get_config()
    except (Exception, SystemExit) as error:
        raise UserError(_failure(path, error)) from error
    try:
        check_keys(config)
    except UserError as error:
        raise UserError(f"{shown_path(path)}: {error}") from error
    if preset:
        apply_preset(config, preset)
    return canonical_config(config)


def stored_config(path: Path, warn: Callable[[str], None]) -> ConfigDict:
    """The config that a run wrote to its config.json.

    Keys added after the run have their defaults, which keep the earlier behaviour; `warn` reports them.  Keys
    removed after it are left out if they were off.

    Raises:
      UserError: the file is missing, damaged or not a config, or has keys that this version does not know.
    """
    stored = read_json(path)
    if not isinstance(stored, dict) or not stored.keys() & KEYS.keys():
        raise UserError(f"{shown_path(str(path))} is not a config written by this program")
    stored = without_removed(stored)
    later = {key: value for key, value in flatten(default_config()).items() if key not in stored}
    if later:
        warn(f"{shown_path(str(path))} is older than {', '.join(sorted(later))}: the default is used")
    known = {**stored, **later}.items()
    flat = {key: tuple(value) if isinstance(value, list) else value for key, value in known}
    try:
        check_flat(flat)
    except UserError as error:
        raise UserError(f"{shown_path(str(path))}: {error}") from error
    return canonical_config(nested(flat))


def split_preset(path: str) -> tuple[str, str]:
    """configs/credit.py:paper -> ("configs/credit.py", "paper"); the preset is "" if none is named."""
    file, colon, preset = path.rpartition(":")
    return (file, preset) if colon and (file.endswith(".py") or file in shipped_configs()) else (path, "")


def graph_folder(path: str) -> tuple[str, str]:
    """path/to/folder:paper -> ("path/to/folder", "paper") if that has a train.txt, else ("", "")."""
    return apart_from_preset(
        path, lambda folder: any(os.path.isfile(home_path(folder) / name) for name in TRAIN_FILES)
    )


def apart_from_preset(named: str, exists: Callable[[str], bool]) -> tuple[str, str]:
    """PLACE or PLACE:PRESET -> (PLACE, PRESET or "") where there is such a place, else ("", "")."""
    place, colon, preset = named.rpartition(":")
    for found, chosen in ((named, ""), (place if colon else "", preset)):
        if found and exists(found):
            return found, chosen
    return "", ""


def shipped_configs() -> dict[str, Path]:
    """The config files that come with the package, by name: in its folder `configs`, or the checkout's."""
    package = Path(__file__).parents[1]
    return {
        file.stem: file
        for file in _python_files(package / "configs") or _python_files(package.parent / "configs")
    }


def _found(path: str) -> Path:
    """The file that a path means: itself if it exists, else the shipped config of that name."""
    file = home_path(path)
    return file if os.path.lexists(file) else shipped_configs().get(path, file)


def canonical_config(config: ConfigDict) -> ConfigDict:
    """A new, unlocked config with the same values in the order and with the exact types of `KEYS`.

    An integer given for a number becomes a float, so that two configs that mean the same are equal, and a
    later override of the key is parsed as a number.
    """
    found = flatten(config)
    return nested({name: _exact(key.allowed.kind, found[name]) for name, key in KEYS.items()})


def _exact(kind: str, value: Any) -> Any:
    if kind == "shares":
        return tuple(float(share) for share in value)
    return float(value) if kind == "float" else int(value) if kind == "int" else value


def _run_file(path: Path) -> types.ModuleType:
    shown = shown_path(path)
    try:
        source = path.read_bytes()
    except IsADirectoryError as error:
        raise UserError(_instead_of_folder(path)) from error
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: a null character
        raise UserError(f"there is no config file {shown}{_closest_file(path)}") from error
    except OSError as error:
        raise UserError(f"cannot read the config file {shown}: {error.strerror}") from error
    if path.suffix.lower() != ".py":
        raise UserError(f"{shown} is no config file, whose name ends in .py")
    module = types.ModuleType("numcoke_config")
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        raise UserError(_failure(str(path), error)) from error
    return module


def _instead_of_folder(path: Path) -> str:
    """What to give in place of a folder that is no graph."""
    shown = shown_path(path)
    if (path / "config.json").exists():
        return f"{shown} is the workdir of a run: give --workdir={shown} beside what the run was started with"
    if (path / "entity2id.txt").exists():
        remedy = f"of its ids numcoke data convert {shown} --out=DIR makes one, to train on"
    else:
        remedy = (
            "give a config file, such as configs/cars.py, or a folder with train.txt, valid.txt and test.txt"
        )
    return f"{shown} is a folder without train.txt: {remedy}"


def _failure(path: str, error: BaseException) -> str:
    """One line with the place inside the config file (not inside what it called) and the reason."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError):
        lines, reason = [error.lineno], error.msg
    else:
        reason = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    place = f"{path}:{lines[-1]}" if lines and lines[-1] else path
    name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
    return f"{shown_path(place)}: the config file fails with {name}{printable(reason, LONGEST_REASON)}"


def _closest_file(path: Path) -> str:
    """A hint: configs/cars.py for "cars", "configs/car.py" and "config/cars.py", else all that exist."""
    known: dict[str, str | Path] = {name: name for name in shipped_configs()}
    folders = [Path("configs"), *([path.parent] if path.suffix or path.name != str(path) else [])]
    known |= {file.stem: file for folder in folders for file in _python_files(folder)}
    close = difflib.get_close_matches(path.stem, known, n=1)
    if close:
        return f"; did you mean {shown_path(known[close[0]])}?"
    names = printable(", ".join(str(known[stem]) for stem in sorted(known)), LONGEST_REASON)
    return f"; there are {names}; nor is there a table or a folder of that name"


def _python_files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
    except (OSError, ValueError):  # the folder does not exist, or cannot
        return []
