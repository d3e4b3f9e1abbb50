"""Recordings of sysstat that are long or no lines: text of days, JSON, XML. Modules that make columns import numpy."""
