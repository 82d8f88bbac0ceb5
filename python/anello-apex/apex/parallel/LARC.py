"""apex.parallel.LARC, from which some scripts import the class of the same name."""

from anello.apex.parallel import LARC  # noqa: F401
