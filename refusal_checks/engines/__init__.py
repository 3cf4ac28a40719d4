"""Start, place, watch and stop model servers on this machine."""
