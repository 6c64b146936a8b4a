"""Many runs: presets, the quick start, measurements, tables from records."""
