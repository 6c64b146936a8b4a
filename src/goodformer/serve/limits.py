"""What one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass

CHARACTERS = 20
"""Characters of a line that a molecule may take per atom; longer lines are refused before RDKit sees them."""


@dataclass(frozen=True)
class Limits:
    """Largest request that is answered.

    Attributes:
        rows: Rows per request.
        atoms: Atoms or nodes per row.
        megabytes: Size of a request.
        seconds: Time for an answer.
        arrival: Seconds in which a request must arrive.
        waiting: Requests that may wait for an answer at the same time.
    """

    rows: int = 10_000
    atoms: int = 400
    megabytes: int = 8
    seconds: float = 60.0
    arrival: float = 20.0
    waiting: int = 256

    @property
    def size(self) -> int:
        """Bytes per request."""
        return self.megabytes * 2**20

    @property
    def characters(self) -> int:
        """Characters per line of a table of molecules, and per SMILES."""
        return CHARACTERS * self.atoms
