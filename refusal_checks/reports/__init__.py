"""What people read: all of it comes from verdicts and the run's summary."""
