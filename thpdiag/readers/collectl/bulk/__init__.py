"""collectl's recordings and plot files as columns. numpy is imported inside; the readers import this when they read."""
