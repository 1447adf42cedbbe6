"""Capacity for sale: what each provider sells, by what rules, and who says so."""
