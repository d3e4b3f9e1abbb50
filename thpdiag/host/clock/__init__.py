"""The clocks of a host's sources and how times are converted between them."""
