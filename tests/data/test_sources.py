"""Where public data are found, which version they are, and what is said when they are nowhere."""

import dataclasses
import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from numcoke_jax.data.public import sources
from numcoke_jax.data.public.sources import find_fb15k_237, find_table, search_folders
from numcoke_jax.data.public.tables import known_table, packaged_cars
from numcoke_jax.data.tables.known import CREDIT, SPOTIFY, TABLES, US_CITIES
from numcoke_jax.system.errors import UserError


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Three folders that stand for config.data.dir, $NUMCOKE_DATA and the user cache, all empty."""
    cache = tmp_path / "cache" / "numcoke_jax"
    folders = {"given": tmp_path / "given", "variable": tmp_path / "variable", "cache": cache}
    for folder in folders.values():
        folder.mkdir(parents=True)
    monkeypatch.setenv("NUMCOKE_DATA", str(folders["variable"]))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    return folders


def test_order_of_the_search(places):
    for place in ("cache", "variable", "given"):  # the later ones are preferred
        (places[place] / "credit.csv").touch()
        assert find_table(CREDIT, str(places["given"])) == places[place] / "credit.csv"
    assert find_table(CREDIT, "") == places["variable"] / "credit.csv"


def test_public_file_names_are_accepted(places):
    for spec, file in ((CREDIT, "UCI_Credit_Card.csv"), (SPOTIFY, "data.csv"), (US_CITIES, "uscities.csv")):
        (places["cache"] / file).touch()
        assert find_table(spec, "") == places["cache"] / file
        (places["cache"] / f"{spec.name}.csv").touch()
        assert find_table(spec, "") == places["cache"] / f"{spec.name}.csv"


def test_a_folder_with_the_files_name_is_no_file(places):
    (places["variable"] / "credit.csv").mkdir()
    (places["cache"] / "credit.csv").touch()
    assert find_table(CREDIT, "") == places["cache"] / "credit.csv"


def test_home_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NUMCOKE_DATA", "~/tables")
    assert search_folders("~/mine")[:2] == [tmp_path / "mine", tmp_path / "tables"]


def test_user_cache_is_the_last_place(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMCOKE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert search_folders("") == [tmp_path / "numcoke_jax"]


# A source's address leads nowhere here: a closed port of this machine, or a file that the test writes.

NOWHERE = "http://127.0.0.1:9/nowhere"


@pytest.fixture
def no_network(monkeypatch):
    for name, source in sources.TABLE_SOURCES.items():
        monkeypatch.setitem(sources.TABLE_SOURCES, name, dataclasses.replace(source, address=NOWHERE))
    for name in ("FB15K_237_FACTS", "FREEBASE_NUMBERS"):
        monkeypatch.setattr(sources, name, dataclasses.replace(getattr(sources, name), address=NOWHERE))
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def downloaded(monkeypatch):
    """Saves the files given instead of downloading; returns [(source, folder)] of the calls."""
    calls: list[tuple[str, Path]] = []
    files: dict[str, bytes] = {}

    def save(source, folder):
        calls.append((source.title, folder))
        folder.mkdir(parents=True, exist_ok=True)
        for file in source.files:
            (folder / file.name).write_bytes(files[file.name])

    monkeypatch.setattr(sources, "download", save)
    return calls, files


@pytest.mark.parametrize(
    ("spec", "page"),
    [
        (SPOTIFY, "https://www.kaggle.com/datasets/geomack/spotifyclassification"),
        (CREDIT, "https://www.kaggle.com/datasets/uciml/default-of-credit-card-clients-dataset"),
        (US_CITIES, "https://simplemaps.com/data/us-cities"),
    ],
)
def test_without_network_one_message_says_which_file_to_put_where(places, no_network, spec, page):
    with pytest.raises(UserError) as caught:
        known_table(spec.name, str(places["given"]))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{spec.name}: cannot be downloaded (Connection refused): {NOWHERE}; ")
    assert page in message
    assert f"save {spec.files[0]} in {places['variable']}, or set $NUMCOKE_DATA" in message


def test_addresses_are_the_public_ones():
    addresses = [source.address for source in sources.TABLE_SOURCES.values()]
    addresses += [sources.FB15K_237_FACTS.address, sources.FREEBASE_NUMBERS.address]
    assert addresses == [
        "https://www.kaggle.com/api/v1/datasets/download/geomack/spotifyclassification",
        "https://www.kaggle.com/api/v1/datasets/download/uciml/default-of-credit-card-clients-dataset",
        "https://simplemaps.com/static/data/us-cities/1.92/basic/simplemaps_uscities_basicv1.92.zip",
        "https://download.microsoft.com/download/8/7/0/8700516A-AB3D-4850-B4BB-805C515AECE1/FB15K-237.2.zip",
        "https://raw.githubusercontent.com/mniepert/mmkb/master/FB15K/FB15K_NumericalTriples.txt",
    ]
    assert set(sources.TABLE_SOURCES) == set(TABLES) - {"cars"}
    for name, source in sources.TABLE_SOURCES.items():
        assert TABLES[name].files == (source.files[0].name, source.files[0].member)
        assert all(re.fullmatch("[0-9a-f]{64}", known) for known in source.files[0].hashes)


def test_a_download_is_saved_where_the_next_search_finds_it(places, downloaded):
    calls, files = downloaded
    files["credit.csv"] = b"the table"
    path = find_table(CREDIT, str(places["given"]))
    assert path == places["variable"] / "credit.csv"
    assert find_table(CREDIT, "") == path
    assert calls == [("credit", places["variable"])]  # the second search found the file


def test_downloads_go_to_the_user_cache_without_a_folder_that_can_be_written(places, monkeypatch, tmp_path):
    assert sources.download_folder() == places["variable"]
    monkeypatch.setenv("NUMCOKE_DATA", str(tmp_path / "not" / "there" / "yet"))
    assert sources.download_folder() == tmp_path / "not" / "there" / "yet"
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMCOKE_DATA", str(tmp_path / "file"))
    assert sources.download_folder() == places["cache"]
    monkeypatch.setenv("NUMCOKE_DATA", str(places["variable"]))
    with monkeypatch.context() as read_only:
        read_only.setattr("os.access", lambda path, mode: path != places["variable"])
        assert sources.download_folder() == places["cache"]
    monkeypatch.delenv("NUMCOKE_DATA")
    assert sources.download_folder() == places["cache"]


SMALL_CREDIT = ",".join(["ID", *CREDIT.fields]) + "\n" + ",".join(["1"] * (1 + len(CREDIT.fields))) + "\n"


def test_a_local_copy_of_another_version_is_read_with_both_hashes_said(places, monkeypatch):
    path = places["given"] / "UCI_Credit_Card.csv"
    path.write_text(SMALL_CREDIT)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    (known,) = (file.hashes for file in sources.TABLE_SOURCES["credit"].files)
    table = known_table("credit", str(places["given"]))
    assert table.entities == ("client_1",)
    assert table.notices == (
        f"{path} is another version than the known one: its SHA-256 is {found}, known is {known[0]}",
    )
    (file,) = sources.TABLE_SOURCES["credit"].files
    for hashes in ((found,), ("0" * 64, found)):
        source = dataclasses.replace(
            sources.TABLE_SOURCES["credit"], files=(dataclasses.replace(file, hashes=hashes),)
        )
        monkeypatch.setitem(sources.TABLE_SOURCES, "credit", source)
        assert known_table("credit", str(places["given"])).notices == ()


# FB15k-237

TRIPLES = {"train": b"a\tr\tb\r\n", "valid": b"b\tr\ta\r\n", "test": b"a\tr\ta\r\n"}
NUMBERS = b"a\tx\t1.5\n"


def zip_triples(path: Path, start: str = "") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/._train.txt", b"junk")
        for split, content in TRIPLES.items():
            archive.writestr(f"{start}{split}.txt", content)


def contents(files: sources.FreebaseFiles) -> dict[str, bytes]:
    found = {}
    for name, file in {**files.splits, "numbers": files.numbers}.items():
        with file.open() as stream:
            found[name] = stream.read()
    return found


@pytest.mark.parametrize("start", ["", "Release/"])
@pytest.mark.parametrize("archive", ["FB15K-237.2.zip", "FB15k-237.zip"])
@pytest.mark.parametrize("inner", ["", "fb15k_237", "FB15k-237"])
def test_fb15k_237_is_found_in_archives(places, downloaded, inner, archive, start):
    folder = places["given"] / inner
    folder.mkdir(exist_ok=True)
    zip_triples(folder / archive, start)
    (places["cache"] / "FB15K_NumericalTriples.txt").write_bytes(NUMBERS)  # another place will do
    files = find_fb15k_237(str(places["given"]))
    assert contents(files) == {**TRIPLES, "numbers": NUMBERS}
    assert downloaded[0] == []
    assert len(files.notices) == 4
    found = hashlib.sha256(TRIPLES["valid"]).hexdigest()
    assert files.notices[1] == (
        f"{folder / archive}/{start}valid.txt is another version than the known one: its SHA-256 is {found}, "
        "known is cf6309010852f6a8d47a45df830a426415d1ee6f7a3970a8376ff1fb81db4a5c"
    )


def test_fb15k_237_is_found_as_plain_files_before_archives(places, downloaded):
    zip_triples(places["cache"] / "FB15k-237.zip")
    folder = places["variable"] / "fb15k_237"
    folder.mkdir()
    (folder / "FB15K_NumericalTriples.txt").write_bytes(NUMBERS)
    for split in TRIPLES:
        (folder / f"{split}.txt").write_bytes(b"x\ty\tz\n")
    files = find_fb15k_237()
    assert contents(files) == {**dict.fromkeys(TRIPLES, b"x\ty\tz\n"), "numbers": NUMBERS}
    (folder / "valid.txt").unlink()  # incomplete: the archive is taken
    assert contents(find_fb15k_237()) == {**TRIPLES, "numbers": NUMBERS}


def test_what_is_missing_of_fb15k_237_is_downloaded(places, downloaded):
    calls, files = downloaded
    files.update({f"{split}.txt": content for split, content in TRIPLES.items()})
    files["FB15K_NumericalTriples.txt"] = NUMBERS
    target = places["variable"] / "fb15k_237"
    assert contents(find_fb15k_237()) == {**TRIPLES, "numbers": NUMBERS}
    assert calls == [("FB15K-237.2", target), ("FB15K_NumericalTriples", target)]
    (target / "FB15K_NumericalTriples.txt").unlink()
    assert contents(find_fb15k_237()) == {**TRIPLES, "numbers": NUMBERS}
    assert calls[2:] == [("FB15K_NumericalTriples", target)]  # only what is not there


def test_fb15k_237_without_network_is_one_message(places, no_network):
    with pytest.raises(
        UserError, match=rf"^FB15K-237.2: cannot be downloaded \(Connection refused\): {NOWHERE}"
    ):
        find_fb15k_237()


@pytest.mark.parametrize("content", [b"no archive", None])
def test_a_damaged_archive_of_fb15k_237_is_named(places, downloaded, content):
    path = places["variable"] / "FB15K-237.2.zip"
    if content is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("train.txt", b"")
        problem = "lacks valid.txt, test.txt"
    else:
        path.write_bytes(content)
        problem = r"cannot be read \(File is not a zip file\)"
    with pytest.raises(UserError, match=f"^{path}: {problem}; delete it to have it downloaded again"):
        find_fb15k_237()


def test_the_shared_files_are_the_known_ones(shared_dir):
    assert find_fb15k_237(str(shared_dir / "data" / "fb15k_237")).notices == ()
    for name in ("credit", "spotify", "us_cities"):
        table = known_table(name, str(shared_dir / "data" / "raw"))
        assert not any("another version" in notice for notice in table.notices)
    odd = known_table("credit", str(shared_dir / "data" / "odd" / "credit_cr_only"))
    assert "UCI_Credit_Card.csv is another version than the known one" in odd.notices[0]


def test_the_known_hash_of_the_released_credit_table(shared_dir):
    """The release has LF ends; the copy with CRLF ends and no last one leads back to its hash."""
    copy = (shared_dir / "data" / "raw" / "credit.csv").read_bytes()
    released = copy.replace(b"\r\n", b"\n") + b"\n"
    (file,) = sources.TABLE_SOURCES["credit"].files
    assert hashlib.sha256(released).hexdigest() == file.hashes[0]
    assert len(released) == 2_862_995  # bytes, as of the copies of it that projects have published


def test_a_wrong_folder_is_named_before_another_is_searched(places):
    (places["cache"] / "credit.csv").touch()
    with pytest.raises(
        UserError, match=r"data.dir: '/no/such/folder' is not a folder; give the folder of credit.csv"
    ):
        find_table(CREDIT, "/no/such/folder")
    with pytest.raises(
        UserError, match=r"data.dir: '/no/such/folder' is not a folder; give the folder of FB15K-237.2.zip"
    ):
        find_fb15k_237("/no/such/folder")


def test_another_file_of_that_name_is_said_to_lack_columns(places):
    (places["given"] / "spotify.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"spotify.csv: no column 'acousticness'; there is 'a', 'b'"):
        known_table("spotify", str(places["given"]))


def test_unknown_tables_have_the_closest_name(places):
    with pytest.raises(UserError, match="data.table: no table 'credits'; did you mean 'credit'"):
        known_table("credits")


def test_cars_come_from_the_package_alone(places, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_: pytest.fail("cars need no network"))
    (places["given"] / "cars.csv").write_text("nothing")
    table = packaged_cars()
    assert table.num_rows == 406
    assert table.columns["Year"][0] == 1970
    assert known_table("cars", str(places["given"])).entities == known_table("cars").entities


def test_tables_of_the_paper_are_found_by_the_variable(shared_dir, monkeypatch):
    monkeypatch.setenv("NUMCOKE_DATA", str(shared_dir / "data" / "raw"))
    for name in ("credit", "spotify", "us_cities"):
        assert find_table(TABLES[name], "") == Path(shared_dir / "data" / "raw" / f"{name}.csv")
