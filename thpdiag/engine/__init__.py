"""Rules: load and check the YAML, evaluate the checks on a case in three-valued logic, explain what came out."""
