"""runtime: what runs plans, and the simulator. See its README for the parts."""
