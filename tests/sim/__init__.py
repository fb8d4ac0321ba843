"""A whole cluster in one process under one seed: real nodes, simulated time, network, disks, clients and workers."""
