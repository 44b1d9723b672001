"""What a person typed after the name of the program, parsed."""

from numcoke_jax.cli import command_line
from numcoke_jax.cli.command_line import parse_command_line


def parse(*arguments: str) -> command_line.Command:
    return parse_command_line(list(arguments))
