"""One session: from options to a plan, an evaluation, decisions and published results."""
