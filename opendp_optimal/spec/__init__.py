"""What is asked: privacy target, loss, problem; and exact arithmetic."""
