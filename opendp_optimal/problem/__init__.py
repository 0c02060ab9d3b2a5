"""What is asked, checked and frozen."""
