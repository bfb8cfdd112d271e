"""Programs that run inside created environments; they import nothing of this project."""
