"""Downloads from a server on this machine: cut, resumed, refused, damaged, unpacked; never from outside."""

import contextlib
import dataclasses
import hashlib
import http.server
import io
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.fuzzing.readers import zip_of
from numcoke_jax.data.public import downloads
from numcoke_jax.data.public.downloads import DownloadProgress, PublicFile, Source, download, version_notice
from numcoke_jax.system.errors import UserError

CONTENT = bytes(range(256)) * 2000  # 512,000 bytes: several chunks


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclasses.dataclass
class Answers:
    """What the server does; `requests` collects (path, Range header or "")."""

    content: bytes = CONTENT
    cuts: list[int] = dataclasses.field(default_factory=list)  # bytes sent before each of the first breaks
    statuses: list[int] = dataclasses.field(default_factory=list)  # of the first answers
    ranges: bool = True
    requests: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    address: str = ""


@pytest.fixture
def server(monkeypatch) -> Iterator[Answers]:
    answers = Answers()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            answers.requests.append((self.path, asked))
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/file")
                self.end_headers()
                return
            status = answers.statuses.pop(0) if answers.statuses else 200
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and answers.ranges else 0
            if status == 200 and asked and answers.ranges:
                status = 206 if start < len(answers.content) else 416
            body = answers.content[start:] if status in (200, 206) else b"an explanation"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 206:
                last = len(answers.content) - 1
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(answers.content)}")
            self.end_headers()
            if status in (200, 206) and answers.cuts:
                self.wfile.write(body[: answers.cuts.pop(0)])
                self.close_connection = True
                return
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    answers.address = f"http://127.0.0.1:{httpd.server_port}/file"
    monkeypatch.setattr(downloads, "RETRY_SECONDS", 0.0)
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    yield answers
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def source_at(address: str, content: bytes = CONTENT, **changes) -> Source:
    plain = Source(
        title="thing",
        address=address,
        page="the page",
        licence="CC0 1.0, the publisher",
        files=(PublicFile("thing.csv", (sha256(content),)),),
    )
    return dataclasses.replace(plain, **changes)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_saved_under_its_name_with_its_licence_said(server, tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    download(source_at(server.address), folder)
    assert (folder / "thing.csv").read_bytes() == CONTENT
    assert names_in(folder) == ["thing.csv"]
    assert server.requests == [("/file", "")]
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"downloading thing from {server.address} to {folder}\nthing: CC0 1.0, the publisher\n"
    )  # no control characters where nobody watches


@pytest.mark.parametrize("cuts", [[100_000], [1, 300_000], [65_536, 0, 65_536, 0, 0, 8192, 7]])
def test_a_cut_connection_is_resumed_where_it_broke(server, tmp_path, cuts):
    server.cuts = list(cuts)
    download(source_at(server.address), tmp_path)
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT
    offsets = [sum(cut // 8192 * 8192 for cut in cuts[:i]) for i in range(len(cuts) + 1)]
    assert [asked for _, asked in server.requests] == [f"bytes={at}-" if at else "" for at in offsets]


def test_a_connection_that_brings_nothing_any_more_is_given_up(server, tmp_path):
    server.cuts = [8192, 0, 0, 0, 0, 0]
    with pytest.raises(UserError, match=r"^thing: cannot be downloaded \(.*\): http://127.*; get it by hand"):
        download(source_at(server.address), tmp_path)
    assert len(server.requests) == 4  # one that brought something, three that did not
    assert names_in(tmp_path) == ["thing.part"]
    assert (tmp_path / "thing.part").read_bytes() == CONTENT[:8192]


def test_the_next_run_goes_on_where_the_last_one_stopped(server, tmp_path, monkeypatch):
    class Interrupted(downloads.pooch.HTTPDownloader):
        def __call__(self, url, output_file, pooch, check_only=False):
            output_file.write(CONTENT[:200_000])
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pooch.HTTPDownloader", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            download(source_at(server.address), tmp_path)
    assert names_in(tmp_path) == ["thing.part"]  # nothing under the final name
    download(source_at(server.address), tmp_path)
    assert server.requests == [("/file", "bytes=200000-")]
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["thing.csv"]


def test_a_server_without_ranges_starts_anew(server, tmp_path):
    server.ranges, server.cuts = False, [300_000, 400_000]
    download(source_at(server.address), tmp_path)
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(("part", "asked"), [(CONTENT, "bytes=512000-"), (b"older" * 100, "bytes=500-")])
def test_a_part_that_is_complete_or_of_another_version_is_thrown_away(server, tmp_path, part, asked):
    (tmp_path / "thing.part").write_bytes(part)
    download(source_at(server.address), tmp_path)
    assert [ranges for _, ranges in server.requests] == [asked, ""]  # after 416, or a wrong hash, once more
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["thing.csv"]


def test_a_wrong_hash_is_refused_with_both_hashes_and_a_way_out(server, tmp_path):
    server.content = b"other,bytes\n1,2\n"
    with pytest.raises(UserError) as caught:
        download(source_at(server.address), tmp_path)
    kept = tmp_path / "thing.csv.unknown-version"
    assert str(caught.value) == (
        f"thing: thing.csv from {server.address} has SHA-256 {sha256(server.content)}, known is "
        f"{sha256(CONTENT)}: damaged or another version; if you trust it, rename {kept} to "
        f"{tmp_path / 'thing.csv'}"
    )
    assert len(server.requests) == 1
    assert kept.read_bytes() == server.content
    assert not (tmp_path / "thing.csv").exists()
    server.content = CONTENT  # the next try starts from nothing
    download(source_at(server.address), tmp_path)
    assert server.requests[1] == ("/file", "")


@pytest.mark.parametrize("status", [404, 403, 500])
def test_an_error_of_the_server_is_one_message(server, tmp_path, status):
    server.statuses = [status] * 9
    with pytest.raises(UserError) as caught:
        download(source_at(server.address), tmp_path)
    assert str(caught.value) == (
        f"thing: cannot be downloaded (HTTP status {status}): {server.address}; get it by hand from the "
        f"page, save thing.csv in {tmp_path}, or set $NUMCOKE_DATA to a folder that has it"
    )
    assert len(server.requests) == (3 if status == 500 else 1)  # what may pass is tried again
    assert (tmp_path / "thing.part").read_bytes() == b""  # nothing of the explanation


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.statuses = [503, 429]
    download(source_at(server.address), tmp_path)
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT


def test_without_network_there_is_one_message(server, tmp_path):
    closed = server.address.rpartition(":")[0] + ":9/file"  # the discard port: nobody listens
    with pytest.raises(UserError) as caught:
        download(source_at(closed), tmp_path)
    message = str(caught.value)
    assert message.startswith(f"thing: cannot be downloaded (Connection refused): {closed}; ")
    assert str(tmp_path) in message and "$NUMCOKE_DATA" in message and "\n" not in message
    assert not (tmp_path / "thing.csv").exists()


def test_a_redirection_is_followed_when_resuming_too(server, tmp_path):
    server.cuts = [25 * 8192]
    download(source_at(server.address.replace("/file", "/moved")), tmp_path)
    assert server.requests == [
        ("/moved", ""),
        ("/file", ""),
        ("/moved", "bytes=204800-"),
        ("/file", "bytes=204800-"),
    ]
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match=rf"^thing: {tmp_path}/file/inside cannot be written \(Not a directory"
    ):
        download(source_at(server.address), tmp_path / "file" / "inside")
    assert server.requests == []


# Archives


RELEASE = {
    "Release/train.txt": b"a\tr\tb\n",
    "Release/text.txt": b"not wanted",
    "__MACOSX/Release/train.txt": b"junk",
    "Release/test.txt": b"b\tr\ta\n",
}


def archive_source(address: str, **changes) -> Source:
    files = tuple(
        PublicFile(f"the_{name}.txt", ("0" * 64, sha256(RELEASE[f"Release/{name}.txt"])), f"{name}.txt")
        for name in ("train", "test")
    )
    return source_at(address, **{"files": files, **changes})


def test_members_of_an_archive_get_their_names(server, tmp_path):
    server.content, server.cuts = zip_of(RELEASE), [50]
    download(archive_source(server.address), tmp_path)
    assert names_in(tmp_path) == ["the_test.txt", "the_train.txt"]
    assert (tmp_path / "the_train.txt").read_bytes() == b"a\tr\tb\n"
    assert (tmp_path / "the_test.txt").read_bytes() == b"b\tr\ta\n"


def corrupted(content: bytes) -> bytes:
    """The archive with one bit of the first member's packed bytes turned; its directory stays readable."""
    place = 30 + len("Release/train.txt") + 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (corrupted, "the download is damaged"),
        (lambda content: zip_of({"Release/train.txt": b"a\tr\tb\n"}), "it holds test.txt 0 times"),
        (lambda content: zip_of({**RELEASE, "x/train.txt": b""}), "it holds train.txt 2 times"),
    ],
)
def test_a_damaged_archive_leaves_nothing(server, tmp_path, damage: Callable[[bytes], bytes], problem):
    server.content = damage(zip_of(RELEASE))
    with pytest.raises(UserError, match=re.escape(problem) + ".*get it by hand from the page"):
        download(archive_source(server.address), tmp_path)
    assert names_in(tmp_path) == ["thing.part"]
    assert (tmp_path / "thing.part").read_bytes() == b""


def test_a_wrong_member_lets_none_through(server, tmp_path):
    server.content = zip_of({**RELEASE, "Release/test.txt": b"changed"})
    with pytest.raises(UserError, match=r"the_test.txt from .* has SHA-256 .* known is 0{64}: damaged"):
        download(archive_source(server.address), tmp_path)
    assert names_in(tmp_path) == ["the_test.txt.unknown-version", "thing.part"]


def test_a_source_that_its_publisher_refreshes_is_taken_as_it_is(server, tmp_path):
    server.content = zip_of({**RELEASE, "Release/test.txt": b"refreshed"})
    download(archive_source(server.address, fixed=False), tmp_path)
    assert (tmp_path / "the_test.txt").read_bytes() == b"refreshed"
    server.content = b"<html>please log in</html>"  # but not what is no archive at all
    with pytest.raises(UserError, match="damaged or another version"):
        download(archive_source(server.address, fixed=False), tmp_path / "other")


def test_a_second_process_waits_for_the_first(server, tmp_path, monkeypatch):
    """flock is per opening of the file, so threads stand for processes here."""
    first_receives, second_waits = threading.Event(), threading.Event()
    receive, lock = downloads._receive, downloads.fcntl.flock

    def slow_receive(*arguments):
        first_receives.set()
        assert second_waits.wait(10)
        receive(*arguments)

    def announced_lock(part, kind):
        if first_receives.is_set():
            second_waits.set()
        lock(part, kind)

    monkeypatch.setattr(downloads, "_receive", slow_receive)
    monkeypatch.setattr(downloads.fcntl, "flock", announced_lock)
    first = threading.Thread(target=download, args=(source_at(server.address), tmp_path))
    first.start()
    assert first_receives.wait(10)
    download(source_at(server.address), tmp_path)
    first.join()
    assert len(server.requests) == 1
    assert (tmp_path / "thing.csv").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["thing.csv"]


# The screen and the hashes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_counts_what_was_there_before(monkeypatch):
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stderr(screen):
        progress = DownloadProgress("thing", offset=1_000_000)
        progress.total = 3_000_000
        assert progress.total == 4_000_000
        progress.update(2_000_000)
        progress.close()
        progress.close()
    assert re.search(r"thing .*3\.0/4\.0 MB", screen.getvalue())


def test_version_notice():
    assert version_notice("x.csv", "b", ("a", "b")) == []
    assert version_notice("x.csv", "c", ("a", "b")) == [
        "x.csv is another version than the known one: its SHA-256 is c, known is a"
    ]
