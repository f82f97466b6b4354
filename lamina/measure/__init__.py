"""How fast a model runs, beside what the machine can do and what others do."""
