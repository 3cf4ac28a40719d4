"""Files of recorded answers: tables, and the logs of other evaluation tools."""
