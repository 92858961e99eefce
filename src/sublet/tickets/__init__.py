"""Support tickets."""
