"""One loop that trains any architecture on any task: a single process, DDP or FSDP2; resumable to the bit."""
