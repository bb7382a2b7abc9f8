"""Answers as pictures: `--plot FILE.{png,svg,html,pdf}`. Matplotlib is an extra, and only `figure` opens and saves."""
