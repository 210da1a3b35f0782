"""Text: tokenizers, documents, shards of token ids, and the rows that tasks read from them."""
