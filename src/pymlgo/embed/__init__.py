"""IR2Vec and MIR2Vec embeddings as arrays: vocabularies, embedders, triplets, vocabulary training."""
