"""From outcomes of rules to one diagnosis and its result document."""
