"""Ways to run a model. They judge nothing."""
