"""What is known of one host: its records, clocks, states, settings and metrics."""
