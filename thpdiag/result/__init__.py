"""The result document: what it holds (schema), and how it is made of a diagnosis (document)."""
