"""What a newcomer reads and types is true: commands, config keys, requirements, pinned versions, paths."""

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from numcoke_jax.cli.command_line import Command, parse_command_line
from numcoke_jax.cli.parser import COMMANDS, parse_arguments
from numcoke_jax.config.files import shipped_configs
from numcoke_jax.runs.workdir import config_differences, flat_config
from numcoke_jax.system.errors import UserError
from tests.tiny_runs import write_folder

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCUMENTS = sorted(
    str(path.relative_to(REPOSITORY)) for path in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")]
)
# Values that commands of RESULTS.md leave to the reader.
PLACEHOLDERS = {"N": "8", "S": "2", "PRESET": "paper", "VALUE": "float32", "SHARE": "0.2"}
# What a make hands to the programs it runs.
MAKE_VARIABLES = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "ARGS", "PYTHON", "REQUIREMENTS"}


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def documented_commands(text: str) -> list[list[str]]:
    """Words of every `make ...`, `numcoke ...` and `python -m ...` in code blocks and code spans of a page.

    A span may run over the ends of lines, not of paragraphs.
    """
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    spans = [span for paragraph in re.split(r"\n\s*\n", prose) for span in re.findall("`([^`]+)`", paragraph)]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += [span.replace("\n", " ") for span in spans]
    return [shlex.split(filled_in(line), comments=True) for line in lines if is_command(line)]


def filled_in(line: str) -> str:
    """A command with what is optional in it, and values in place of the names that stand for them."""
    without_brackets = re.sub(r"\[(--[^]]*)\]", r"\1", line).replace("...", "")
    names = "|".join(PLACEHOLDERS)
    return re.sub(rf"(?<=[=:])({names})(?=\s|$)", lambda found: PLACEHOLDERS[found[1]], without_brackets)


# The words of the program that the modules stand for which gave commands their names before.
PROGRAMS = ("numcoke", "numcoke_jax", "numcoke_jax.main")
ALIASES = {
    "numcoke_jax": [],
    "numcoke_jax.main": [],
    "numcoke_jax.compare": ["compare"],
    "numcoke_jax.data.build": ["data", "build"],
    "numcoke_jax.data.check": ["data", "check"],
    "numcoke_jax.data.rdf": ["data", "rdf"],
}


def is_command(line: str) -> bool:
    command = r"(\w+=\S+ )*(\S+/)?(numcoke [\w-]|(make|python3? -m (numcoke_jax|experiments))\b)"
    return re.match(command, line.strip()) is not None


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", read("Makefile"), flags=re.MULTILINE))


def makefile_commands() -> list[list[str]]:
    """The module runs in the Makefile's recipes, with its variables put in."""
    text = read("Makefile")
    variables = dict(re.findall(r"^([A-Z]+) :?= (.*)$", text, flags=re.MULTILINE))
    commands = []
    for recipe in re.findall(r"^\t(.*-m numcoke_jax.*|\$\(PROGRAM\).*)$", text, flags=re.MULTILINE):
        while names := re.findall(r"\$\(([A-Z]+)\)", recipe):
            for name in names:
                recipe = recipe.replace(f"$({name})", variables.get(name, ""))
        commands.append(recipe.split())
    return commands


def made_folders(commands: list[list[str]]) -> set[str]:
    """The graphs that commands of a page write, which `numcoke train FOLDER` then reads."""
    pages = [words for words in commands if words[1:2] == ["data"]]
    return {word.partition("=")[2] for words in pages for word in words if word.startswith("--out=")}


@pytest.fixture
def with_folders(tmp_path):
    """A function that puts the path of a graph or table for the one in `numcoke train FOLDER`."""

    def replaced(words: list[str], made: set[str]) -> list[str]:
        name, colon, preset = "".join(words[2:3]).partition(":")
        if words[1:2] == ["train"] and name.endswith(".csv"):
            options = dict(word.removeprefix("--").split("=", 1) for word in words[3:] if "=" in word)
            columns = [options[option] for option in ("name", "relations", "fields") if option in options]
            header = ",".join(columns).split(",")
            rows = [",".join(f"{row}{place}" for place in range(len(header))) for row in range(1, 31)]
            (tmp_path / name).write_text(
                "\n".join(
                    [
                        ",".join([*header, "more"]),
                        *(f"{row},{len(row)}.{place}" for place, row in enumerate(rows)),
                    ]
                )
            )
            return [*words[:2], f"{tmp_path / name}{colon}{preset}", *words[3:]]
        if words[1:2] != ["train"] or name not in made | {"DIR"}:
            return words
        folder = tmp_path / name
        if not folder.exists():
            write_folder(folder)
        return [*words[:2], f"{folder}{colon}{preset}", *words[3:]]

    return replaced


def problems(words: list[str]) -> list[str]:
    """What is wrong with a command, as the reader would meet it."""
    while re.match(r"[A-Z_]+=", words[0]):  # VARIABLE=value command
        words = words[1:]
    if words[0] == "make":
        variables = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        targets = [word for word in words[1:] if "=" not in word]
        found = [f"no make target {target}" for target in targets if target not in makefile_targets()]
        return found + flag_problems(shlex.split(variables.get("ARGS", "")))
    if "-m" not in words:
        if " ".join(words[1:]) in COMMANDS:  # prose that names a command
            return []
        return flag_problems(words[1:])
    module = words[words.index("-m") + 1]
    if importlib.util.find_spec(module) is None:
        return [f"no module {module}"]
    return flag_problems(words[words.index("-m") + 2 :], module)


def flag_problems(flags: list[str], module: str = "numcoke_jax") -> list[str]:
    """What the program itself objects to: config file, keys, values, names of flags."""
    try:
        if module in ALIASES:  # other modules of the package take no flags
            assert "--help" in flags or parse_arguments([*ALIASES[module], *flags] or ["train"])
        elif module.startswith("experiments."):
            options, more = importlib.import_module(module).parser().parse_known_args(flags)
            config = [f"--config={options.config}"] if "config" in options else []
            parse_command_line([*config, *more])  # the flags of every run
    except UserError as error:
        return [str(error)]
    return []


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch):
    monkeypatch.chdir(REPOSITORY)


@pytest.mark.parametrize("page", DOCUMENTS)
def test_documented_commands_name_what_exists(page, with_folders):
    commands = documented_commands(read(page))
    made = made_folders(commands)
    wrong = {" ".join(words): problems(with_folders(words, made)) for words in commands}
    assert {command: found for command, found in wrong.items() if found} == {}


@pytest.mark.parametrize("page", DOCUMENTS)
def test_documented_runs_do_not_meet_in_one_workdir(page, with_folders):
    """Typed one after the other, beginning with `make demo`, no command is refused for the run before."""
    runs: dict[Path, dict] = {}
    refused = {}
    documented = documented_commands(read(page))
    made = made_folders(documented)
    for words in [*makefile_commands(), *(with_folders(words, made) for words in documented)]:
        program = [place for place, word in enumerate(words) if Path(word).name in PROGRAMS]
        if not program or "--help" in words:
            continue
        flags = words[program[0] + 1 :] or ["train"]
        if flags[0] != "train" and not flags[0].startswith("--"):  # an evaluation takes the run as it is
            continue
        command = parse_arguments(flags)
        if not isinstance(command, Command):
            continue
        config = flat_config(command.config)
        differences = config_differences(runs.setdefault(command.workdir, config), config)
        if differences:
            refused[" ".join(words)] = differences
    assert refused == {}


def test_readme_shows_the_commands_that_everyone_needs():
    commands = {" ".join(words) for words in documented_commands(read("README.md"))}
    assert {"make demo", "make test", "numcoke train spotify"} <= {
        shown for command in commands for shown in (command, command.partition(" --workdir")[0])
    }


def test_ci_commands_name_what_exists():
    commands = [shlex.split(line) for line in read(".ci/run").splitlines() if is_command(line)]
    assert [words[:2] for words in commands] == [["make", "lint"], ["make", "demo"], ["make", "test"]]
    assert [found for words in commands if (found := problems(words))] == []


def test_makefile_commands_name_what_exists():
    commands = makefile_commands()
    assert len(commands) == 4  # demo, spotify, credit, us-cities
    assert [found for words in commands if (found := problems(words))] == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make tset", "no make target tset"),
        ("make demo ARGS='--config.seeed=1'", "seeed is not a config key"),
        ("python -m numcoke_jax.mian", "no module numcoke_jax.mian"),
        ("python -m numcoke_jax.main --config=configs/absent.py", "no config file configs/absent.py"),
        ("python -m numcoke_jax.main --config.model.dmi=3", "model.dmi"),
        ("python -m numcoke_jax.main --config.modle.dim=3", "modle"),
        ("python -m numcoke_jax.main --config.model.dim=many", "many"),
        ("python -m numcoke_jax.main --wrokdir=runs/x", "wrokdir"),
        ("numcoke trian cars", "trian is not a command; did you mean train?"),
        ("numcoke train cars:papr", "there is no preset 'papr'"),
        ("numcoke eval --workdir=runs/x --eval.chnk=3", "did you mean --eval.chunk=3?"),
        ("numcoke predict --workdir=runs/x --haed=x", "did you mean --head?"),
        ("numcoke data biuld --table=cars", "did you mean data build?"),
        ("python -m numcoke_jax.data.build --tabel=cars --out=DIR", "--table"),
        ("python -m numcoke_jax.data.rdf x.nt --out=DIR --shorten=lst", "--shorten"),
        ("python -m numcoke_jax.data.check DIR --jason", "--jason"),
        ("python -m experiments.ablation --epoch=3", "--epoch=3 is not a flag"),
        ("python -m experiments.ablation --config.model.dmi=3", "model.dmi"),
        ("python -m experiments.seeds --config=configs/absent.py", "no config file configs/absent.py"),
        ("python -m experiments.benchmark.step --entities=many", "--entities"),
    ],
)
def test_a_wrong_command_is_noticed(command, problem):
    broken = command.replace(" --", "\n--", 1)
    for page in (f"Text.\n\n```sh\n{command}  # why\n```\n", f"By `{broken}`, a `span`.\n"):
        (words,) = documented_commands(page)
        (found,) = problems(words)
        assert problem in found


@pytest.mark.parametrize("page", DOCUMENTS)
def test_files_that_documents_name_exist(page):
    code = re.findall(r"`([^`\n]+)`", read(page))
    links = re.findall(r"\]\(([^)#:]+)\)", read(page))
    named = [
        word
        for word in code
        if re.fullmatch(r"(numcoke_jax|configs|docs|tests|experiments|\.ci)/[\w./]+", word)
    ]
    folder = (REPOSITORY / page).parent  # a link starts where its page lies
    places = {name: REPOSITORY / name for name in named} | {link: folder / link for link in links}
    absent = [name for name, place in places.items() if "NAME" not in name and not place.exists()]
    assert absent == []


def make(*arguments: str, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run make as from a shell, also where a make runs these tests."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    environment = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", sorted(makefile_targets()))
def test_make_accepts_its_targets(target):
    dry = make("-n", target)
    assert dry.returncode == 0, dry.stderr
    assert dry.stderr == ""


def test_make_help_lists_every_target():
    assert set(re.findall(r"^  make ([a-z-]+)", make().stdout, flags=re.MULTILINE)) == makefile_targets() - {
        "help"
    } | {"help"}


def test_make_without_a_suitable_python_says_so(tmp_path):
    for name in ("Makefile", "requirements-cpu.txt", "constraints.txt", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")  # as an interpreter does that is too old
    old.chmod(0o755)
    run = make("install", f"PYTHON={old}", "REQUIREMENTS=requirements-cpu.txt", folder=tmp_path)
    assert run.returncode != 0
    first = run.stderr.splitlines()[0]
    assert first.startswith("make: no Python 3.11 or newer with the venv module among")
    assert str(old) in first and "PYTHON=/path/to/python3" in first
    assert not (tmp_path / ".venv").exists()


def pinned_versions() -> dict[str, Version]:
    lines = [line.partition("#")[0].strip() for line in read("constraints.txt").splitlines()]
    pins = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): Version(version) for name, version in pins}


def all_requirements() -> list[Requirement]:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return [Requirement(line) for line in PROJECT["dependencies"] + extras]


def requirement_lines(name: str) -> list[str]:
    return [line for line in read(name).splitlines() if line and not line.startswith("#")]


def test_pinned_versions_satisfy_the_project():
    pins = pinned_versions()
    listed = {canonicalize_name(name) for name in requirement_lines("requirements-cpu.txt")}
    tested = [
        requirement for requirement in all_requirements() if canonicalize_name(requirement.name) in listed
    ]
    absent = [requirement.name for requirement in tested if canonicalize_name(requirement.name) not in pins]
    assert absent == []
    outside = [str(r) for r in tested if pins[canonicalize_name(r.name)] not in r.specifier]
    assert outside == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-cpu.txt"])
def test_requirements_list_the_project_and_its_tools(name):
    lines = requirement_lines(name)
    listed = {canonicalize_name(Requirement(line).name) for line in lines}
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    assert listed >= {canonicalize_name(Requirement(line).name) for line in needed}
    assert listed <= {canonicalize_name(requirement.name) for requirement in all_requirements()}
    issue = {"jax", "flax", "optax", "orbax-checkpoint", "numpy", "pandas", "ml-collections", "pytest"}
    assert issue <= listed
    assert ("jax[cuda12]" in lines) == (name == "requirements.txt")


def test_shipped_configs_are_a_package_and_not_copied() -> None:
    """setup.py installs the folder `configs` as numcoke_jax.configs, where `shipped_configs` looks first."""
    assert set(shipped_configs().values()) == set((REPOSITORY / "configs").glob("*.py"))
    folders = (
        "import setuptools; setuptools.setup = lambda **s: print(sorted(s['packages']), s['package_dir']); "
    )
    program = f"{folders} exec(open('setup.py').read())"
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True
    ).stdout
    assert PROJECT["scripts"] == {"numcoke": "numcoke_jax.__main__:main"}
    packages = {
        ".".join(path.relative_to(REPOSITORY).parent.parts)
        for path in (REPOSITORY / "numcoke_jax").rglob("*.py")
    }
    assert shown == f"{sorted([*packages, 'numcoke_jax.configs'])} {{'numcoke_jax.configs': 'configs'}}\n"


def test_every_dependency_has_a_reason():
    text = read("pyproject.toml")
    for requirement in PROJECT["dependencies"]:
        assert re.search(rf'"{re.escape(requirement)}",  # \w', text), requirement


def test_imports_of_the_package_are_declared():
    pattern = re.compile(r"^(?:from|import) (\w+)", flags=re.MULTILINE)
    files = (REPOSITORY / "numcoke_jax").rglob("*.py")
    imported = {name for path in files for name in pattern.findall(path.read_text(encoding="utf-8"))}
    distributions = {"absl": "absl-py", "orbax": "orbax-checkpoint"}
    third_party = imported - set(sys.stdlib_module_names) - {"numcoke_jax", "__future__"}
    declared = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    extras = {canonicalize_name(requirement.name) for requirement in all_requirements()} - declared
    assert {canonicalize_name(distributions.get(name, name)) for name in third_party} <= declared | extras


def test_pages_and_their_table_of_contents_name_each_other():
    listed = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", read("mkdocs.yml"), flags=re.MULTILINE)
    pages = [str(path.relative_to(REPOSITORY / "docs")) for path in (REPOSITORY / "docs").glob("**/*.md")]
    assert sorted(listed) == sorted(pages) and "api.md" in listed


def test_the_api_page_names_what_exists():
    names = re.findall(r"^::: (\S+)$", read("docs/api.md"), flags=re.MULTILINE)
    assert {"numcoke_jax.api.NumericKG", "numcoke_jax.api.train", "numcoke_jax.api.Model"} <= set(names)
    for name in names:
        module, _, member = name.rpartition(".")
        assert getattr(importlib.import_module(module), member).__doc__, name


def test_licence_is_apache():
    assert PROJECT["license"] == "Apache-2.0"
    text = read("LICENSE")
    assert (
        "Apache License" in text
        and "Version 2.0, January 2004" in text
        and "END OF TERMS AND CONDITIONS" in text
    )


def repository_files() -> list[Path]:
    """What is or would be committed; everything but hidden folders where git cannot say."""
    if shutil.which("git") and (REPOSITORY / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        return [path for name in names.split("\0") if name and (path := REPOSITORY / name).is_file()]
    paths = [path for path in REPOSITORY.rglob("*") if path.is_file()]
    return [
        p for p in paths if not any(part.startswith(".") for part in p.relative_to(REPOSITORY).parts[:-1])
    ]


# Paths of one person's machine. "someone" is nobody: tests of "~" need a home folder's name.
LOCAL_PATH = re.compile(rb"(?<![\w.~*)\]}])/(?:home|root|work|Users|mnt|scratch)/(?!someone\b)|[A-Z]:\\Users")


def test_local_paths_are_recognised():
    assert LOCAL_PATH.search(b'open("' + b"/ho" + b'me/mary/data.csv")')
    assert not LOCAL_PATH.search(b"/home/someone/data.csv")
    assert not LOCAL_PATH.search(b"https://example.org/home/page and ../work/notes")


def test_no_file_mentions_a_local_path():
    files = repository_files()
    assert REPOSITORY / "README.md" in files
    mentions = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in files
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if LOCAL_PATH.search(line)
    ]
    assert mentions == []
