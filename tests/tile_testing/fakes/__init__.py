"""Stand-ins for stages, devices, drivers and servers, and made-up data."""
