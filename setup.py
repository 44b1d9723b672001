"""What pyproject.toml cannot say: `configs/` is installed as the package `numcoke_jax.configs`.

It stays at the top of a checkout, where it is edited and named on the command line.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["numcoke_jax*"]), "numcoke_jax.configs"],
    package_dir={"numcoke_jax.configs": "configs"},
)
