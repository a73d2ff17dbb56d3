"""IR2Vec and MIR2Vec: vectors for LLVM IR and machine IR, exact, as arrays, with vocabularies that can be trained."""

from pymlgo.embed.embedder import Embedder, MIREmbedder
from pymlgo.embed.embeddings import Embeddings, Kind, Level, Precision
from pymlgo.embed.entities import EntityTable, ir_entities, mir_entities
from pymlgo.embed.levels import embed, embed_blocks_of
from pymlgo.embed.module import ParsedFunction, ParsedModule, ReadOptions, StaleEmbedding, read_ir, read_mir
from pymlgo.embed.reader import Reader
from pymlgo.embed.shipped import shipped_mir_vocabulary, shipped_vocabulary
from pymlgo.embed.triplets import KnowledgeGraph, knowledge_graph, triplets, triplets_text
from pymlgo.embed.vocabulary import MIRVocabulary, MIRWeights, Vocabulary, VocabularyWarning, Weights

__all__ = [
    "Embedder",
    "Embeddings",
    "EntityTable",
    "Kind",
    "KnowledgeGraph",
    "Level",
    "MIREmbedder",
    "MIRVocabulary",
    "MIRWeights",
    "ParsedFunction",
    "ParsedModule",
    "Precision",
    "ReadOptions",
    "Reader",
    "StaleEmbedding",
    "Vocabulary",
    "VocabularyWarning",
    "Weights",
    "embed",
    "embed_blocks_of",
    "ir_entities",
    "knowledge_graph",
    "mir_entities",
    "read_ir",
    "read_mir",
    "shipped_mir_vocabulary",
    "shipped_vocabulary",
    "triplets",
    "triplets_text",
]
