"""What many formats are made of: numbers and their units, times of day, CPU shares, tasks, lines that did not fit."""
