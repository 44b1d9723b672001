"""The test suite; a package, so that tests import the oracles however pytest is started."""
