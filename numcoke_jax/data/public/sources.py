"""Where public data are looked for: a folder that the user gives, $NUMCOKE_DATA, the user cache, the network.

What no folder has is downloaded into the folder of $NUMCOKE_DATA if that can be written, else into the
user cache.  A local copy of an unknown version is read, with a notice that has both hashes.
"""

import dataclasses
import hashlib
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pooch

from numcoke_jax.data.files.lines import TextFile, member_file, plain_file
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.data.public.downloads import FOLDER_VARIABLE, PublicFile, Source, download, version_notice
from numcoke_jax.data.tables.known import CREDIT, SPOTIFY, US_CITIES, TableSpec
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path

KAGGLE_DOWNLOAD = "https://www.kaggle.com/api/v1/datasets/download/"
TABLE_SOURCES = {
    "spotify": Source(
        title="spotify",
        address=f"{KAGGLE_DOWNLOAD}geomack/spotifyclassification",
        page=SPOTIFY.source,
        licence="licence as stated on the page of the data set, Kaggle geomack/spotifyclassification",
        files=(
            PublicFile(
                name="spotify.csv",
                hashes=("f633e4d3803aa0359c38e8475b4149cf08a577ab82e642d1545e0a0b78b2f455",),
                member="data.csv",
            ),
        ),
    ),
    "credit": Source(
        title="credit",
        address=f"{KAGGLE_DOWNLOAD}uciml/default-of-credit-card-clients-dataset",
        page=CREDIT.source,
        licence="CC0 1.0, public domain, Kaggle uciml/default-of-credit-card-clients-dataset",
        files=(
            PublicFile(
                name="credit.csv",
                hashes=(
                    "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1",
                    # The same lines with CRLF ends and none after the last.
                    "61537758427df346bd48014953d99bc55f138b4f19dda4012a6238fa5214cf6d",
                ),
                member="UCI_Credit_Card.csv",
            ),
        ),
    ),
    "us_cities": Source(
        title="us_cities",
        address="https://simplemaps.com/static/data/us-cities/1.92/basic/simplemaps_uscities_basicv1.92.zip",
        page=US_CITIES.source,
        licence="CC BY 4.0, simplemaps.com, United States Cities Database, basic",
        files=(
            PublicFile(
                name="us_cities.csv",
                hashes=("cdf90dddc580dd32f593b37e1d923fca50c9c261d77e4102457bec46f17c851d",),
                member="uscities.csv",
            ),
        ),
        fixed=False,  # the publisher corrects and refreshes the table
    ),
}
# The released lines end in CRLF; the second hashes are those of the same lines with LF.
FB15K_237_FACTS = Source(
    title="FB15K-237.2",
    address=(
        "https://download.microsoft.com/download/8/7/0/8700516A-AB3D-4850-B4BB-805C515AECE1/FB15K-237.2.zip"
    ),
    page="https://www.microsoft.com/en-us/download/details.aspx?id=52312",
    licence="Microsoft Research data licence, in the archive; facts from Freebase, CC BY 2.5",
    files=tuple(
        PublicFile(name, hashes, member=name)
        for name, hashes in {
            "train.txt": (
                "6e4c2782169af21e9743f3b1d200886f5d595bf6bc504ec1351720949c5cdfae",
                "61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a",
            ),
            "valid.txt": (
                "cf6309010852f6a8d47a45df830a426415d1ee6f7a3970a8376ff1fb81db4a5c",
                "749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9",
            ),
            "test.txt": (
                "5711cf41623ceb4eacc50eb6108a3ca6565c7492e3caaf82a3e355cc660d1574",
                "e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b",
            ),
        }.items()
    ),
)
FREEBASE_NUMBERS = Source(
    title="FB15K_NumericalTriples",
    address="https://raw.githubusercontent.com/mniepert/mmkb/master/FB15K/FB15K_NumericalTriples.txt",
    page="https://github.com/mniepert/mmkb",
    licence="BSD 3-Clause, Copyright 2018 NEC Labs Europe GmbH, the mmkb project",
    files=(
        PublicFile(
            name="FB15K_NumericalTriples.txt",
            hashes=("9fd4f2dfe95af2bc4caa6ce1db84641168f42be759217dfbfcf95ca79d5aa0f3",),
        ),
    ),
)
FB15K_237_FOLDERS = ("fb15k_237", "FB15k-237", "FB15K-237", "")  # read in each folder; saved in the first
FB15K_237_ARCHIVES = ("FB15K-237.2.zip", "FB15k-237.zip", "FB15K-237.zip")


def search_folders(directory: str) -> list[Path]:
    """The folders where public data are looked for, in order: `directory`, $NUMCOKE_DATA, the user cache."""
    given = [directory, os.environ.get(FOLDER_VARIABLE, "")]
    return [home_path(folder) for folder in given if folder] + [Path(pooch.os_cache("numcoke_jax"))]


def download_folder() -> Path:
    """Where downloads are saved: the folder of $NUMCOKE_DATA if it can be written, else the user cache."""
    *given, cache = search_folders("")
    for folder in given:
        existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        if existing.is_dir() and os.access(existing, os.W_OK):
            return folder
    return cache


def find_table(spec: TableSpec, directory: str, inner: Sequence[str] = ("",)) -> Path:
    """The first file of `spec.files` in the first folder that has one; downloaded if none has one.

    Raises:
      UserError: a folder that the user named does not exist, or no folder has the file and it cannot be
        downloaded; the message has the address and says which file to put where.
    """
    folders = search_folders(directory)
    check_directory(directory, spec.files[0])
    for place in (folder / name for folder in folders for name in inner):
        for file in spec.files:
            if os.path.isfile(place / file):  # False, not an error, in a folder that cannot be read
                return place / file
    folder = download_folder()
    download(TABLE_SOURCES[spec.name], folder)
    return folder / spec.files[0]


def check_directory(directory: str, wanted: str) -> None:
    """Raises UserError unless `directory` is "" or a folder; `wanted` is what should be in it."""
    if directory and not os.path.isdir(home_path(directory)):
        raise UserError(f"data.dir: {directory!r} is not a folder; give the folder of {wanted}")


@dataclasses.dataclass(frozen=True)
class FreebaseFiles:
    """FB15k-237 as it was found: its splits by name, the numeric triples, notices about their versions."""

    splits: dict[str, TextFile]
    numbers: TextFile
    notices: tuple[str, ...]


def find_fb15k_237(directory: str = "") -> FreebaseFiles:
    """The files of FB15k-237 and of its numbers, downloaded if no folder has them.

    The splits are looked for in each folder and its subfolders `FB15K_237_FOLDERS`, as plain files or in one
    of the zip archives `FB15K_237_ARCHIVES`.

    Args:
      directory: the folder to look in first (config.data.dir); "" for none.

    Raises:
      UserError: as for `find_table`; or an archive is damaged.
    """
    check_directory(directory, FB15K_237_ARCHIVES[0])
    places = [folder / inner for folder in search_folders(directory) for inner in FB15K_237_FOLDERS]
    target = download_folder() / FB15K_237_FOLDERS[0]
    splits = next(filter(None, map(_splits_in, places)), None)
    if splits is None:
        download(FB15K_237_FACTS, target)
        splits = _splits_in(target)
        assert splits is not None, "the download saved the files"
    name = FREEBASE_NUMBERS.files[0].name
    path = next((place / name for place in places if os.path.isfile(place / name)), None)
    if path is None:
        download(FREEBASE_NUMBERS, target)
        path = target / name
    numbers = plain_file(path)
    expected = (*FB15K_237_FACTS.files, *FREEBASE_NUMBERS.files)
    found = (*splits.values(), numbers)
    notices = [
        line
        for public, file in zip(expected, found, strict=True)
        for line in version_notice(file.name, _content_hash(file), public.hashes)
    ]
    return FreebaseFiles(splits, numbers, tuple(notices))


def _splits_in(place: Path) -> dict[str, TextFile] | None:
    """train, valid and test of a folder, as files or in an archive; None if it lacks one of them."""
    paths = {split: place / f"{split}.txt" for split in SPLITS}
    if all(os.path.isfile(path) for path in paths.values()):
        return {split: plain_file(path) for split, path in paths.items()}
    for name in FB15K_237_ARCHIVES:
        if os.path.isfile(place / name):
            return _splits_of_archive(place / name)
    return None


def _splits_of_archive(path: Path) -> dict[str, TextFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {PurePosixPath(name).name: name for name in archive.namelist()[::-1]}
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"{path}: cannot be read ({error}); delete it to have it downloaded again") from error
    missing = [f"{split}.txt" for split in SPLITS if f"{split}.txt" not in members]
    if missing:
        raise UserError(f"{path}: lacks {', '.join(missing)}; delete it to have it downloaded again")
    return {
        split: member_file(f"{path}/{members[f'{split}.txt']}", path, members[f"{split}.txt"])
        for split in SPLITS
    }


def _content_hash(file: TextFile) -> str:
    with file.open() as opened:
        stream: Any = opened  # IO[bytes], whose type lacks the readinto that its objects have
        return hashlib.file_digest(stream, "sha256").hexdigest()
