"""The imports between the packages of numcoke_jax as a Mermaid graph, for docs/architecture.md.

    python docs/imports.py            prints it

Nodes stand in the order of the contract in pyproject.toml, the highest first; an arrow points at what is
imported.  An arrow upwards would point at an earlier node.
"""

import grimp

PACKAGE = "numcoke_jax"
ALIASES = ("data.build", "data.check", "data.rdf")  # names that commands had before
ORDER = ("cli", "api", "inference", "runs", "training", "evaluation", "models", "data", "config", "system")


def part_of(module: str) -> str:
    """The part at the top of the package that a module is in, such as "data"; "" for the package itself."""
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def arrows() -> list[tuple[str, str]]:
    """(importing part, imported part) of all imports between parts, in the order of `ORDER`."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    found = {
        (part_of(module), part_of(imported))
        for module in graph.modules
        if module.removeprefix(f"{PACKAGE}.") not in ALIASES
        for imported in graph.find_modules_directly_imported_by(module)
    }
    place = {part: number for number, part in enumerate(ORDER)}
    between = [(a, b) for a, b in found if a != b and a in place and b in place]
    return sorted(between, key=lambda pair: (place[pair[0]], place[pair[1]]))


def picture() -> str:
    """The graph in Mermaid's language."""
    lines = [f"  {a} --> {b}" for a, b in arrows()]
    return "\n".join(["```mermaid", "flowchart TD", *(f"  {part}" for part in ORDER), *lines, "```"])


if __name__ == "__main__":
    print(picture())
