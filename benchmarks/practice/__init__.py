"""What people with tables ask: which method, which draws to keep, and do intervals hold."""
