"""The libraries of functions, each declaring what it offers, what that does and what it costs."""
