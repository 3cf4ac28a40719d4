"""The words that everything else uses; knows nothing of models, gates or reports."""
