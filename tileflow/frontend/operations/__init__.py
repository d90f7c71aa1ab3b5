"""What torch's functions and the language's own mean while device code is traced: one module a family."""
