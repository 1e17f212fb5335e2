"""What leaves the gradebook for other programs: tables, learning platforms, continuous integration."""
