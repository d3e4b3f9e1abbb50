"""Prometheus and OpenMetrics: scraped text and answers to queries."""
