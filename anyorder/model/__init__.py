"""The network behind the contract: config, packed linears, cache, relative two-stream attention, XLNet, checkpoints."""
