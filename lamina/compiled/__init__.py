"""Compiled models as files to carry: code, packed weights, tokenizer and settings in one."""
