"""Tables as bytes."""
