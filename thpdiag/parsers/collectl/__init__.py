"""collectl: its raw recordings, its plot files, what it prints at a terminal."""
