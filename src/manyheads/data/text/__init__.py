"""Text: tokenizers, documents, shards of token ids with a manifest, and what tasks cut out of them."""
