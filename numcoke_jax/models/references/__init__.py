"""References: models that are fitted to the training facts at once, without embeddings or gradient steps."""
