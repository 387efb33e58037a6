"""Epochs as people ask for them: on demand or in the background, fed by sources."""
