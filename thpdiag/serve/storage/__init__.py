"""The storage of the upload page: a database (SQLite or PostgreSQL) and a folder of bundles named by their digests."""
