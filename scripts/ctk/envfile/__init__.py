"""Files that users bring: what each line asks for, what that is here, and the file rewritten."""
