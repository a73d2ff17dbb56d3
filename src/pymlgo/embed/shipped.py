"""The vocabularies of this package: trained by us, a vector for every entity, provenance inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pymlgo.embed.vocabulary import MIRVocabulary, Vocabulary
from pymlgo.errors import VocabularyError

FOLDER = Path(__file__).with_name("vocabularies")

SHIPPED: Mapping[str, str] = MappingProxyType({"ir": "ir-75d.json", "mir-x86-64": "mir-x86-64-50d.json"})
"""Name to file."""

RARE_IR = FOLDER / "rare.ll"
"""IR with what C and C++ for Linux hardly ever show; part of what the IR vocabulary was trained on."""


def shipped_vocabulary() -> Vocabulary:
    """IR2Vec's, 75 dimensions."""
    return Vocabulary.load(FOLDER / SHIPPED["ir"])


def shipped_mir_vocabulary(target: str = "x86-64") -> MIRVocabulary:
    """MIR2Vec's of a target.

    Raises:
        VocabularyError: there is none for that target.
    """
    file = SHIPPED.get(f"mir-{target}")
    if file is None:
        raise VocabularyError(
            f"the package has no MIR vocabulary for target {target}",
            hint="`mlgo embed train CORPUS --mode mir` trains one; --vocabulary names it",
        )
    return MIRVocabulary.load(FOLDER / file)
