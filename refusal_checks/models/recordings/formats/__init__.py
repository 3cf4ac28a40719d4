"""One module per format of recorded answers that other tools write."""
