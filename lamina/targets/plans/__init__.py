"""What a plan is as data, and what it says to do: shared by every target that walks one."""
