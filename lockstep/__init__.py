"""lockstep grades PyTorch distributed-training labs: observe in a sandbox, judge outside."""
