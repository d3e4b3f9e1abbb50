"""From readings to hosts, and from a host's records to the states of its case."""
