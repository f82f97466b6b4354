"""Sessions, key-value pages, sampling and text generation."""
