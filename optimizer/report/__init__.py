"""Answers as tables for people; JSON comes from the models themselves."""
