"""A profile given away: folded stacks, speedscope's format, or all of it as JSON. Pure functions of one profile."""
