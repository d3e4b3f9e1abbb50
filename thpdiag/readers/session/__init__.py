"""What people typed and wrote between the outputs."""
