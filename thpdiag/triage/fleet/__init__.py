"""What a whole store says: hosts, groups, outliers, change over time, the gate."""
