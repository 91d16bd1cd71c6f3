"""Callbacks that watch a training whose loop is not the user's own."""
