"""Where raw tables are found, and what is said when they are not."""

from pathlib import Path

import pytest

from numcoke_jax.data.sources import find_table, known_table, packaged_cars, search_folders
from numcoke_jax.data.tables import CREDIT, SPOTIFY, TABLES, US_CITIES
from numcoke_jax.errors import UserError


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


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        (SPOTIFY, "Kaggle geomack/spotifyclassification"),
        (CREDIT, "Kaggle uciml/default-of-credit-card-clients-dataset"),
        (US_CITIES, "simplemaps basic US cities"),
    ],
)
def test_a_missing_table_says_which_file_to_put_where(places, monkeypatch, spec, source):
    with pytest.raises(UserError) as caught:
        known_table(spec.name, str(places["given"]))
    message = str(caught.value)
    assert "\n" not in message
    for folder in places.values():
        assert str(folder) in message
    assert source in message
    assert f"save it as {places['given'] / spec.files[0]}" in message
    assert "NUMCOKE_DATA" not in message  # it is set already
    monkeypatch.delenv("NUMCOKE_DATA")
    with pytest.raises(
        UserError, match=r"save it as .*numcoke_jax/.*\.csv or set \$NUMCOKE_DATA to its folder"
    ):
        known_table(spec.name)


def test_a_wrong_folder_is_named_before_another_is_searched(places):
    (places["cache"] / "credit.csv").touch()
    with pytest.raises(
        UserError, match=r"data.dir: '/no/such/folder' is no folder; give the folder of credit.csv"
    ):
        find_table(CREDIT, "/no/such/folder")


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
