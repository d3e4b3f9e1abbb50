"""Pages for people, with their templates and static files."""
