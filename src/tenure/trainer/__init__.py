"""What does a training job import? The hook: go on, save or drain. Standard library only."""
