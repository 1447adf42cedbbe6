"""Numbers before money is spent: pure maths, no clock, no chance but a seed that is given."""
