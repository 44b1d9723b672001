"""What tells a packed file from text, and the content of an archive from what a packer adds."""

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
ADDED_FOLDER = "__MACOSX"  # by macOS, to the zip archives that it makes


def is_content(member: str) -> bool:
    """Whether the member of a zip archive with this name is one of the files that somebody packed."""
    return ADDED_FOLDER not in member.split("/")
