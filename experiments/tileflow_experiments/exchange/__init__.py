"""Other projects' formats: what is written for them, and what is read of theirs: docs/guides/integrations.md."""
