"""What the upload page keeps: a database (SQLite or PostgreSQL) and a folder of bundles by their content."""
