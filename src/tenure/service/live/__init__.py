"""What a person can ask of the running scheduler, and who may ask for what: every door asks here."""
