"""The Metal target: simt kernels to the Metal Shading Language, run by a Mac's GPU."""
