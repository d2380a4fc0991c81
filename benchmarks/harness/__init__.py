"""What all studies share: options, finished parts on disk, timing in turns, tables."""
