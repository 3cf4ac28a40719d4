"""Gates: from bounds in run files to verdicts on figures."""
