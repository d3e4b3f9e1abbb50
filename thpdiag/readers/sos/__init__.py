"""What sos says of itself: its logs and its manifest."""
