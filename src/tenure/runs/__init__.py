"""How is a training run carried across capacity windows? Buying, assembling, watching, saving, draining."""
