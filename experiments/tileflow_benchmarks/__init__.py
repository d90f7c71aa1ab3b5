"""What is measured of tileflow, beside its peers and by itself. No wheel holds it: it runs in a checkout."""
