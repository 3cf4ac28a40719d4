"""Whether a judge may be believed: canary, calibration and human labels."""
