"""The work list: what the user names, as one `Item` per bundle. Names and sizes only; no content is parsed here."""
