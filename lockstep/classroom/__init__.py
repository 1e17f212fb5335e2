"""A class: many submissions, their grades, and what leaves the house. Knows no exercise, runs no student code."""
