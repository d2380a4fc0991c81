"""Scripts that run in environments of their own, which have another library and not this one."""
