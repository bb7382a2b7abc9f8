"""Saved plans looked at on a schedule until stopped.

cron      crontab lines as APScheduler's triggers
health    a file that says when the last look was, and what came of it
metrics   the same for Prometheus
watcher   one look, whatever goes wrong in it; the schedule; leaving
"""
