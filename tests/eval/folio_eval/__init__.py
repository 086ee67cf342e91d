"""What each eviction policy costs in quality: tasks, runs on the real processes, reports."""
