"""What an error costs."""
