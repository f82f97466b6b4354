"""Other runtimes beside which a model is measured, each in a process of its own."""
