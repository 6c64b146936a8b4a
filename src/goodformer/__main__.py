"""``python -m goodformer`` is the command line."""

from goodformer.cli import main

main()
