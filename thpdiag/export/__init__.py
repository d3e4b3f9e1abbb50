"""Values and call stacks for other programs, and the letter that asks a customer for what is missing."""
