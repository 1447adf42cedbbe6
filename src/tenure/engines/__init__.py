"""What really runs jobs: one protocol, an engine a folder or file."""
