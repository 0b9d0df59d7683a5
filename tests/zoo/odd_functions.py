"""Functions that describe a network to `supple doctor`, each odd in one way. `WILL` says what is right for each."""

from torch import nn  # noqa: F401  (a name in a file that is no function of a network)

from tests.zoo.odd import WILL  # noqa: F401
from tests.zoo.odd_modules import *  # noqa: F403
from tests.zoo.odd_passes import *  # noqa: F403
from tests.zoo.odd_values import *  # noqa: F403
