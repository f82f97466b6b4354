"""What targets with a device of their own have in common: sessions and executables."""
