"""Analyses of what was uploaded: workers that claim jobs of the queue, each bundle in a guarded child."""
