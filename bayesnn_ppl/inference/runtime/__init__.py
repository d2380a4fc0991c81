"""What every long computation needs: blocks, compiled programs, what is kept, progress."""
