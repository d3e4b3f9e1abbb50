"""What to write to the customer: what is known, what is missing and why, and the script that records just that."""
