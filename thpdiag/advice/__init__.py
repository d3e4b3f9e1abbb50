"""What to do about a mechanism on exactly this host: commands, how to verify and undo them, what they cost."""
