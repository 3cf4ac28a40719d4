"""What a terminal shows about runs."""
