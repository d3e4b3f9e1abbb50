"""Which clock a time was read from, and what joins the clocks of one host."""
