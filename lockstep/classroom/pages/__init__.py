"""What people read: the class at a glance, and one page for each student."""
