"""What outlives every window? A store of checkpoints that is only ever added to by whole, verified ones."""
