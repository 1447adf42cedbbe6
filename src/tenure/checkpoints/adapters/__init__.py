"""How do frameworks' own checkpoints get into a store? Each imports its library when used."""
