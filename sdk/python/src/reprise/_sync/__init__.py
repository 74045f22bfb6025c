"""The sync client, made by tools/unasync.py."""
