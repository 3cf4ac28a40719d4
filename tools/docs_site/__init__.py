"""Generate the documentation's tables from the code, and hook into the build of the site."""
