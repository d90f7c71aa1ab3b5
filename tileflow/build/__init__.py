"""Lowering, emitting and compiling: from the IR to a binary, in processes that may be killed."""
