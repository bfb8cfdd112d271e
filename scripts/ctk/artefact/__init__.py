"""What an artefact must be before any recipe or measuring sees it: a hash says which file it is, not what is in it."""
