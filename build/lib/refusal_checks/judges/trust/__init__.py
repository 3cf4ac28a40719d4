"""Whether a judge can be trusted: canary, calibration and human labels."""
