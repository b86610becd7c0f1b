"""What an event loop waits for: coroutines, its mailbox, its batches."""
