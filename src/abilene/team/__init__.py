"""How a team talks: prompts, replies, protocol, topology, simulated agents. Knows nothing of Inspect."""
