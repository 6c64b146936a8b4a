"""Speed and memory measurements: scripts that use the package and are not part of it."""
