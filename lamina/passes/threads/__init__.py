"""Rules that make the program of a block that of one of its threads."""
