"""The async client, from which tools/unasync.py generates `_sync`."""
