"""The search for a smaller model that still fails, and all that it keeps."""
