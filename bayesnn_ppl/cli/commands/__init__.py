"""The commands: each reads its settings, calls the library, and prints."""
