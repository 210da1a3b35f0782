"""How beartype reads the annotations that the tests check: as a type checker does, a whole number is a float, too."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
