"""Tables that ship: rows for the serving shapes of ``configs/pretuned/problems.yaml``, and their distribution."""
