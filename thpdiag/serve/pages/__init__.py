"""Pages for people; templates and static files lie beside the modules."""
