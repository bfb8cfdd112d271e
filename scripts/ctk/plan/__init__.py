"""Recipes and locks become a list of builds, with the repodata that they will have."""
