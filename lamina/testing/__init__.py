"""What a target, in the box or not, is tested with."""
