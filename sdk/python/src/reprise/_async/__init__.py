"""The async client. `_sync` is made of it by tools/unasync.py."""
