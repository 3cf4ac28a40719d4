"""Model servers on this machine: started, placed, watched and stopped."""
