"""anello.apex.amp."""

from anello.apex.amp import *  # noqa: F401, F403
from anello.apex.amp import _amp_state  # noqa: F401
