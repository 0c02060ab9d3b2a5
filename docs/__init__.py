"""What is documented, and the scripts that write some of its pages."""
