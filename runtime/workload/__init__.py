"""Workloads: the data model, seeded generators, and loaders of recorded traces.

It must not know schedulers or caches; a workload only says who asks for what, and when.
"""
