"""Series for other programs: the rows that were read of a metric, with where they stand, as CSV, JSON or Parquet."""
