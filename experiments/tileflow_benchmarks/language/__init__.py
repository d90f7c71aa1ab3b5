"""How much of the language is right, by cause, in this version and in an older one."""
