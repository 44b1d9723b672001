"""The imports between the packages of numcoke_jax as a Mermaid graph, for docs/architecture.md.

    python docs/imports.py            prints it

Nodes stand in the order of the contract in pyproject.toml, the highest first; an arrow points at what is
imported, with the number of imports between modules.  An arrow upwards would point at an earlier node.
"""

import collections

import grimp

PACKAGE = "numcoke_jax"
ALIASES = ("data.build", "data.check", "data.rdf")  # names that commands had before
ORDER = ("cli", "api", "inference", "runs", "training", "evaluation", "models", "data", "config", "system")


def part_of(module: str) -> str:
    """The part at the top of the package that a module is in, such as "data"; "" for the package itself."""
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def arrows() -> dict[tuple[str, str], int]:
    """(importing part, imported part) -> number of imports between their modules, in the order of `ORDER`."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    counts = collections.Counter(
        (part_of(module), part_of(imported))
        for module in graph.modules
        if module.removeprefix(f"{PACKAGE}.") not in ALIASES
        for imported in graph.find_modules_directly_imported_by(module)
    )
    place = {part: number for number, part in enumerate(ORDER)}
    between = [(a, b) for a, b in counts if a != b and a in place and b in place]
    return {pair: counts[pair] for pair in sorted(between, key=lambda p: (place[p[0]], place[p[1]]))}


def picture() -> str:
    """The graph in Mermaid's language."""
    lines = [f"  {a} -->|{count}| {b}" for (a, b), count in arrows().items()]
    return "\n".join(["```mermaid", "flowchart TD", *(f"  {part}" for part in ORDER), *lines, "```"])


if __name__ == "__main__":
    print(picture())
